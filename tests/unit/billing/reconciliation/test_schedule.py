"""Which hours the periodic job compares next."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from app.billing.reconciliation.records import HOUR, Window
from app.billing.reconciliation.schedule import CATCH_UP, HORIZON, REPEATED, History, due

MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
END = MIDNIGHT + 11 * HOUR
DAY = timedelta(days=1)
YESTERDAY = [Window(END - REPEATED, MIDNIGHT), Window(MIDNIGHT, END)]


def hours(*spans: Window) -> set[datetime]:
    return {span.start + n * HOUR for span in spans for n in range((span.end - span.start) // HOUR)}


def merged(windows: list[Window]) -> list[Window]:
    """In order and without overlaps, as the database returns them."""
    found: list[Window] = []
    for start, end in sorted(windows):
        if found and found[-1].end >= start:
            found[-1] = Window(found[-1].start, max(found[-1].end, end))
        else:
            found.append(Window(start, end))
    return found


def test_the_first_pass_begins_a_day_ago() -> None:
    assert due(END, History()) == YESTERDAY


def test_nothing_is_due_before_another_hour_has_ended() -> None:
    assert due(END, History([Window(END - DAY, END)], END - DAY)) == []


def test_a_gap_is_due_even_if_the_last_hour_was_compared() -> None:
    compared = [Window(END - 3 * DAY, MIDNIGHT - DAY), Window(MIDNIGHT - 2 * HOUR, END)]

    assert due(END, History(compared, END - 3 * DAY)) == [Window(MIDNIGHT - DAY, MIDNIGHT - 2 * HOUR)]


def test_hours_that_were_compared_in_part_are_due_as_a_whole() -> None:
    half = timedelta(minutes=30)
    compared = [Window(END - DAY, END - 5 * HOUR + half), Window(END - 4 * HOUR + half, END)]

    assert due(END, History(compared, END - DAY)) == [Window(END - 5 * HOUR, END - 3 * HOUR)]


def test_the_hours_before_the_latest_day_are_not_due_twice() -> None:
    history = History([Window(END - 3 * DAY, END - 2 * DAY)], END - 3 * DAY)

    parts = due(END, history)

    assert parts[:2] == YESTERDAY
    assert len(hours(*parts)) == sum((part.end - part.start) // HOUR for part in parts)


def test_one_pass_catches_up_on_some_days_oldest_first_and_on_none_beyond_the_horizon() -> None:
    parts = due(END, History([], END - 400 * DAY))

    assert len(parts) == 2 + CATCH_UP
    assert parts[2].start == END - HORIZON


def test_what_failed_is_tried_last_and_the_latest_failure_after_the_others() -> None:
    gap = Window(MIDNIGHT - 3 * DAY, MIDNIGHT)
    compared = [Window(gap.start - DAY, gap.start), Window(MIDNIGHT, END)]
    failures = {gap.start: END, gap.start + DAY: END - HOUR}

    parts = due(END, History(compared, gap.start - DAY, failures))

    assert [part.start for part in parts] == [gap.start + 2 * DAY, gap.start + DAY, gap.start]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_compared_by_hand_or_failed_no_hour_is_left_out(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - no secret
    first = END - timedelta(hours=random.randrange(24, 600))
    compared, failures = [Window(first, first + HOUR)], dict[datetime, datetime]()
    for _ in range(random.randrange(6)):
        start = first + timedelta(hours=random.randrange(24 * 20))
        compared.append(Window(start, min(END, start + timedelta(hours=random.randrange(1, 40)))))
    compared = [window for window in compared if window.start < window.end]

    for number in range(60):
        parts = due(END, History(merged(compared), first, failures))
        assert len(parts) <= 2 + CATCH_UP
        for part in parts:
            if random.random() < 0.3:
                failures[part.start] = END + number * HOUR
                break
            compared.append(part)

    assert hours(*compared) >= hours(Window(first, END))
