import base64
import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Invalid
from app.pagination import Cursor


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
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        Cursor.decode(text)


@given(st.text())
def test_no_text_is_more_than_refused(text: str) -> None:
    with suppress(Invalid):
        assert Cursor.decode(text).encode()
