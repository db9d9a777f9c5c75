"""What pages claim is proved by tests that exist."""

import re

import pytest

from tests.architecture.tree import ROOT, sources

PAGES = {"SECURITY.md": "| control |", "PRIOR_SYSTEMS.md": "| design |"}
"""With the beginnings of their tables."""


@pytest.mark.parametrize("page", PAGES)
def test_every_test_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text(encoding="utf-8")))
    written = {
        name
        for path in sources("tests")
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }

    assert len(named) > 20
    assert named - written == set()


@pytest.mark.parametrize(("page", "beginning"), PAGES.items())
def test_every_row_names_one(page: str, beginning: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    tables = [rest.partition("\n\n")[0].splitlines()[2:] for rest in text.split(beginning)[1:]]

    assert sum(map(len, tables)) > 20
    assert [line for table in tables for line in table if "`test_" not in line] == []
