"""Due times of cron expressions, in time zones whose clocks are changed."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import Invalid
from app.schedules.cron import MAX_CRON_CHARS, Timing
from tests.factories import not_none

NOW = datetime(2026, 11, 23, 5, 1, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
BERLIN = "Europe/Berlin"
SPRING, AUTUMN = datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 10, 31, tzinfo=UTC)
"""The days on which clocks in Berlin go from 2:00 to 3:00, and from 3:00 to 2:00, at 1:00 UTC."""


def times(timing: Timing, after: datetime, count: int) -> list[datetime]:
    """Its next due times."""
    found = [after]
    for _ in range(count):
        following = not_none(timing.next_after(found[-1]))
        found.append(following)
    return found[1:]


def clock(timing: Timing, after: datetime, count: int) -> list[str]:
    """The same as clocks of the time zone show them, with the offset from UTC."""
    zone = ZoneInfo(timing.time_zone)
    return [each.astimezone(zone).strftime("%d. %H:%M %z") for each in times(timing, after, count)]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("*/15 * * * *", "2026-11-23T05:15:00"),
        ("0 9 * * MON-FRI", "2026-11-23T09:00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00"),
        ("0 0 13 * FRI", "2026-11-27T00:00:00"),  # Either, as in Debian's cron,
        ("0 0 */13 * FRI", "2026-11-27T00:00:00"),  # and both if one begins with a star.
        ("@hourly", "2026-11-23T06:00:00"),
        (" @Daily ", "2026-11-24T00:00:00"),
        ("@weekly", "2026-11-29T00:00:00"),
        ("@monthly", "2026-12-01T00:00:00"),
        ("@yearly", "2027-01-01T00:00:00"),
    ],
)
def test_an_expression_has_a_next_time(cron: str, expected: str) -> None:
    timing = Timing(cron)

    timing.check(NOW)

    assert timing.next_after(NOW) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("* * * *", "must have five fields"),
        ("0 * * * * *", "must have five fields (minute, hour, day of month, month, day of week), not 6"),
        ("@reboot", "must be five fields, or one of @hourly, "),
        ("60 * * * *", "has an invalid minute"),
        ("* * 0 * *", "has an invalid day of month"),
        ("* * * * MOON", "has an invalid day of week"),
        ("٣ * * * *", "has an invalid minute"),
        ("0 0 30 2 *", "has an invalid day of month"),
        ("0-59 0-23 */28 2 MON#4", "matches no time in the next 50 years"),
        (",".join(["1"] * MAX_CRON_CHARS), f"must not be longer than {MAX_CRON_CHARS} characters"),
    ],
)
def test_an_unusable_expression_is_refused_with_its_field(cron: str, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        Timing(cron).check(NOW)

    (error,) = refused.value.errors
    assert error.field == "cron"
    assert error.message.startswith(problem)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "localtime", "europe/berlin", "../etc/passwd", "UTC+1"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid, match="timeZone: must be an IANA time zone"):
        Timing("* * * * *", zone).check(NOW)


@pytest.mark.parametrize(
    ("start_at", "end_at", "problem"),
    [
        (None, NOW, "endAt: must be later than startAt"),
        (NOW + DAY, NOW + HOUR, "endAt: must be later than startAt"),
        (None, NOW + MINUTE, "endAt: must be later than the first time that cron matches"),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), None, "startAt: must be in the next 50 years"),
    ],
)
def test_a_period_without_a_due_time_is_refused(
    start_at: datetime | None, end_at: datetime | None, problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        Timing("0 6 * * *", "Asia/Tokyo", start_at, end_at).check(NOW)


def test_the_period_includes_its_start_and_not_its_end() -> None:
    start_at = datetime(2026, 11, 25, 12, tzinfo=UTC)
    timing = Timing("0 * * * *", start_at=start_at, end_at=start_at + 2 * HOUR)

    assert times(timing, NOW, 2) == [start_at, start_at + HOUR]
    assert timing.next_after(start_at + HOUR) is None


def test_a_start_in_the_past_and_an_end_that_never_comes_have_no_effect() -> None:
    ends = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    timing = Timing("0 6 * * *", "Asia/Tokyo", *ends)

    timing.check(NOW)

    assert timing.next_after(NOW) == Timing("0 6 * * *", "Asia/Tokyo").next_after(NOW)


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("30 2 * * *", SPRING - DAY, ["27. 02:30 +0100", "28. 03:00 +0200", "29. 02:30 +0200"]),
        ("0,30 2,3 * * *", SPRING, ["28. 03:00 +0200", "28. 03:30 +0200", "29. 02:00 +0200"]),
        ("30 2 * * *", AUTUMN - DAY, ["30. 02:30 +0200", "31. 02:30 +0200", "01. 02:30 +0100"]),
        # From 2:10 for the second time.
        ("5,15 2 * * *", AUTUMN + HOUR + 10 * MINUTE, ["01. 02:05 +0100"]),
    ],
    ids=["skipped", "skipped together", "twice", "between the two"],
)
def test_a_daily_time_is_due_once_a_day_while_clocks_are_changed(
    cron: str, after: datetime, expected: list[str]
) -> None:
    assert clock(Timing(cron, BERLIN), after, len(expected)) == expected


def test_times_by_the_hour_go_on_in_real_time_while_clocks_are_changed() -> None:
    for day in (SPRING, AUTUMN):
        found = times(Timing("*/30 * * * *", BERLIN), day, 12)

        assert [later - earlier for earlier, later in pairwise(found)] == [30 * MINUTE] * 11


def test_the_same_daily_time_is_kept_across_both_changes() -> None:
    found = clock(Timing("0 9 * * *", BERLIN), SPRING - 2 * DAY, 300)

    assert {each.split()[1] for each in found} == {"09:00"}
    assert {each.split()[2] for each in found} == {"+0100", "+0200"}


def test_of_a_gap_the_latest_times_are_found() -> None:
    timing = Timing("* * * * *")

    found = timing.latest(NOW.replace(second=0), NOW + DAY, most=100)

    assert len(found) == 100
    assert found[-1] == (NOW + DAY).replace(second=0)
    assert {later - earlier for earlier, later in pairwise(found)} == {MINUTE}


def test_no_time_before_the_first_one_is_found() -> None:
    timing = Timing("0 * * * *")
    first = datetime(2026, 11, 23, 6, tzinfo=UTC)

    assert timing.latest(first, first + 2 * HOUR, most=100) == [first, first + HOUR, first + 2 * HOUR]
    assert timing.latest(first, first + HOUR - MINUTE, most=100) == [first]
    assert timing.latest(first, first - MINUTE, most=100) == []


def test_the_latest_times_across_a_change_of_clocks_are_those_that_were_due() -> None:
    for day in (SPRING, AUTUMN):
        for cron in ("30 2 * * *", "*/20 * * * *", "0,30 1,2,3 * * *"):
            timing = Timing(cron, BERLIN)
            due = times(timing, day - HOUR, 9)
            for end in range(1, 9):
                until = due[end] + MINUTE / 2

                assert timing.latest(due[0], until, most=100) == due[: end + 1]


def test_a_gap_of_years_takes_no_longer_than_one_of_hours() -> None:
    began = time.thread_time()
    for cron in ("* * * * *", "* * 29 2 *", "0 0 */29 2 SUN#1", "* * * 1 *"):
        first = not_none(Timing(cron, BERLIN).next_after(NOW))
        Timing(cron, BERLIN).latest(first, first + 40 * 365 * DAY, most=100)

    assert time.thread_time() - began < 5


FIELDS = st.sampled_from(
    [
        *("*", "*/2", "*/7", "0", "1", "2", "3", "0,30", "1-3", "15", "28-31", "L", "LW", "MON#5", "5L"),
        *("FEB", "7", "?"),
    ]
)
ZONES = st.sampled_from(
    [BERLIN, "UTC", "Australia/Lord_Howe", "America/Nuuk", "Asia/Kathmandu", "Africa/Cairo"]
)


@given(
    cron=st.lists(FIELDS, min_size=5, max_size=5).map(" ".join),
    zone=ZONES,
    after=st.datetimes(datetime(2026, 1, 1), datetime(2038, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
@example("0,30 2,3 * * *", BERLIN, SPRING)
def test_due_times_increase_and_their_search_ends(cron: str, zone: str, after: datetime) -> None:
    timing = Timing(cron, zone)
    try:
        timing.check(after)
    except Invalid:
        return
    found, last = [], after
    for _ in range(5):
        if (following := timing.next_after(last)) is None:
            break
        found.append(following)
        last = following

    assert all(earlier < later for earlier, later in pairwise([after, *found]))
    assert all(each.second == each.microsecond == 0 for each in found)
    if found:
        assert timing.latest(found[0], found[-1], most=100) == found


@given(st.text(alphabet="0123456789*/,-#LWMONFEB @?\t", max_size=40))
def test_no_text_is_more_than_invalid(cron: str) -> None:
    try:
        Timing(cron, BERLIN).check(NOW)
    except Invalid as error:
        assert [each.field for each in error.errors] == ["cron"]  # noqa: PT017
