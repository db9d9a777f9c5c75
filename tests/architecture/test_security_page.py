"""What docs/SECURITY.md claims is proved by tests that exist."""

import re

from tests.architecture.tree import ROOT, sources


def test_every_test_the_page_names_exists() -> None:
    page = (ROOT / "docs" / "SECURITY.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    written = {
        name
        for path in sources("tests")
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }

    assert len(named) > 20
    assert named - written == set()


def test_every_control_names_one() -> None:
    page = (ROOT / "docs" / "SECURITY.md").read_text(encoding="utf-8")
    table = page.partition("| control |")[2].partition("\n\n")[0].splitlines()[2:]

    assert [line for line in table if "`test_" not in line] == []
