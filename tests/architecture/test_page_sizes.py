"""How much a page loads at first."""

import gzip
import re

import pytest

from app.http.api.pages.files import WEB, sent_text

_NAMED = re.compile(r'(?:href|src)="\./assets/([^"]+)"')


@pytest.mark.parametrize(
    ("page", "most"), [("console.html", 80_000), ("billing.html", 70_000), ("chat.html", 120_000)]
)
def test_a_page_loads_little_at_first(page: str, most: int) -> None:
    names = _NAMED.findall((WEB / page).read_text(encoding="utf-8"))

    texts = {name: sent_text(name) or (WEB / name).read_text(encoding="utf-8") for name in names}
    # A request each; more would wait for one another.
    assert len(texts) <= 5
    assert any("function Shell(" in text for text in texts.values())
    assert sum(len(gzip.compress(text.encode())) for text in texts.values()) <= most
