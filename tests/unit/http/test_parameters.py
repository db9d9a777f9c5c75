from datetime import UTC, datetime

import pytest

from app.http.parameters import parse_moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-01T09:30:00Z", datetime(2026, 11, 1, 9, 30, tzinfo=UTC)),
        ("2026-11-01t09:30:00.25z", datetime(2026, 11, 1, 9, 30, 0, 250_000, tzinfo=UTC)),
        ("2026-11-01T09:30:00+02:00", datetime(2026, 11, 1, 7, 30, tzinfo=UTC)),
        ("2026-11-01T09:30:00.123456789-05:00", datetime(2026, 11, 1, 14, 30, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_a_time_is_parsed_to_utc(text: str, moment: datetime) -> None:
    assert parse_moment(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "1700000000",
        "yesterday",
        "2026-11-01",
        "2026-11-01T09:30:00",
        "2026-11-01T09:30:00 02:00",
        "2026-02-30T00:00:00Z",
        "2026-11-01T09:30:00+25:00",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "٢٠٢٦-11-01T09:30:00Z",
        None,
    ],
)
def test_other_values_than_times_are_rejected(text: object) -> None:
    with pytest.raises(ValueError, match="must be a time like"):
        parse_moment(text)
