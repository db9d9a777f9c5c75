import base64
import json
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Invalid
from app.platform.pagination import Cursor, PageRequest


@given(st.datetimes(timezones=st.just(UTC)), st.text("abc-_.:0", min_size=1))
def test_a_cursor_comes_back_as_it_was(moment: datetime, item_id: str) -> None:
    assert Cursor.decode(Cursor(moment, item_id).encode()) == (moment, item_id)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "é",
        "====",
        encoded("text"),
        encoded([]),
        encoded(["2026-01-01T00:00:00+00:00"]),
        encoded(["yesterday", "a"]),
        encoded(["0001-01-01T00:00:00+05:00", "a"]),
        encoded(["2026-01-01T00:00:00+00:00", 5]),
        encoded(["2026-01-01T00:00:00+00:00", "a\x00"]),
        encoded(["2026-01-01T00:00:00+00:00", "\ud800"]),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    ],
)
def test_an_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        Cursor.decode(text)


@given(st.text())
def test_no_text_is_more_than_refused(text: str) -> None:
    with suppress(Invalid):
        assert Cursor.decode(text).encode()


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("found", range(6))
def test_pages_put_together_are_the_list(found: int) -> None:
    items = [(NOW, f"item-{number}") for number in reversed(range(found))]
    read: list[tuple[datetime, str]] = []
    cursor: str | None = None
    while True:
        page = PageRequest.of(2, cursor)
        later = [item for item in items if page.before is None or item < page.before]
        shown, cursor = page.cut(later[: page.fetched], lambda item: item)
        read += shown
        assert len(shown) <= page.limit
        if cursor is None:
            break
    assert read == items


def test_a_cursor_of_a_list_of_uuids_holds_a_uuid() -> None:
    item_id = UUID(int=7)
    assert PageRequest.of_uuids(1, Cursor(NOW, str(item_id)).encode()).before == (NOW, item_id)
    with pytest.raises(Invalid, match="cursor"):
        PageRequest.of_uuids(1, Cursor(NOW, "item-1").encode())
