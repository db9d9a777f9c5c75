"""How much a page loads at first."""

import gzip
import re
from pathlib import Path

import pytest

WEB = Path("app/web")
_LOADED = re.compile(r"""(?:\bfrom |\bimport |\bhref=|\bsrc=)"(\.[^"]+\.(?:js|css|svg))\"""")


def loaded_by(page: str) -> set[Path]:
    """The page's file, and all that it and its modules load at once."""
    found: set[Path] = set()
    waiting = [WEB / page]
    while waiting:
        path = waiting.pop().resolve()
        if path in found:
            continue
        found.add(path)
        if path.suffix in {".html", ".js"} and path.exists():
            names = _LOADED.findall(path.read_text(encoding="utf-8"))
            waiting += [path.parent / name.removeprefix("./assets/") for name in names]
    return found


def compressed(path: Path) -> int:
    """Its size as a proxy sends it; some are compressed here."""
    ready = path.with_name(f"{path.name}.gz")
    return ready.stat().st_size if ready.exists() else len(gzip.compress(path.read_bytes()))


@pytest.mark.parametrize(("page", "most"), [("console.html", 250_000)])
def test_a_page_loads_little_at_first(page: str, most: int) -> None:
    loaded = loaded_by(page)

    assert {WEB.resolve() / name for name in ("shell.js", "parts/table.js", "vendor/preact.js")} <= loaded
    assert sum(map(compressed, loaded)) <= most
