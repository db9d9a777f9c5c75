"""Differences between minutes: what cancels, what remains, and where."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.billing.reconciliation.comparing.alignment import LONGEST_RUN, Aligned, align
from app.billing.reconciliation.records import KINDS, NOTHING, Counts, Window, plus, total

START = datetime(2026, 11, 20, tzinfo=UTC)
A, B, C = 10, 25, 7


def counts(tokens: int) -> Counts:
    return (tokens, *(0 for _ in KINDS[1:]))


def aligned(*tokens: int) -> Aligned:
    """Align one difference per minute."""
    minutes = {START + timedelta(minutes=n): counts(each) for n, each in enumerate(tokens) if each}
    return align(minutes)


def left(found: Aligned) -> list[tuple[int, int, int]]:
    """First minute, last minute and tokens of what remains."""
    return [(minute(each.start), minute(each.end), each.counts[0]) for each in found.left]


def minute(at: datetime) -> int:
    return (at - START) // timedelta(minutes=1)


@pytest.mark.parametrize(
    ("tokens", "remaining"),
    [
        ([], []),
        ([A, -A], []),
        ([-A, 0, 0, A], []),
        ([A, B, -A, -B], []),
        ([A + B, -A, -B], []),
        ([A], [(0, 0, A)]),
        ([A, -A, B], [(2, 2, B)]),
        ([C, A, -A, B, -B], [(0, 0, C)]),
        ([C, A + B, -A, -B], [(0, 0, C)]),
        ([A, *[0] * 10, -A], [(0, 0, A), (11, 11, -A)]),
        ([A, *[0] * 20, A], [(0, 0, A), (21, 21, A)]),
        ([A, B], [(0, 1, A + B)]),
    ],
)
def test_neighbours_cancel_and_the_rest_is_located(
    tokens: list[int], remaining: list[tuple[int, int, int]]
) -> None:
    assert left(aligned(*tokens)) == remaining


def test_opposite_faults_an_hour_apart_do_not_cancel_through_busy_minutes() -> None:
    hours = LONGEST_RUN // timedelta(minutes=1) + 10
    # Messages on the border of a minute, every few minutes: everything is one cluster.
    tokens = [0] * hours
    for number in range(5, hours - 5, 8):
        tokens[number : number + 2] = [100 + number, -100 - number]
    found = aligned(A, *tokens, -A)

    assert left(found) == [(0, 0, A), (hours + 1, hours + 1, -A)]


def test_a_fault_does_not_hide_behind_the_edge_of_the_report() -> None:
    tokens = [C, *[A, -A, 0, 0, 0, 0] * 20, B, 0, 0, *[A, -A, 0, 0, 0, 0] * 20, C]

    assert left(aligned(*tokens)) == [(0, 0, C), (121, 121, B), (244, 244, C)]


def test_minutes_that_all_differ_are_one_span() -> None:
    moved = [n * n % 97 + 1 for n in range(60)]
    noise = [here - before for here, before in zip([*moved, 0], [0, *moved], strict=True)]

    found = aligned(*noise, B)

    assert [(each.is_dense, each.counts[0]) for each in found.left] in ([(True, B)], [(False, B)])


@given(st.lists(st.integers(-3, 3), max_size=40))
def test_nothing_appears_and_nothing_is_lost(tokens: Sequence[int]) -> None:
    found = aligned(*tokens)

    assert total([each.counts for each in found.left]) == counts(sum(tokens))
    assert all(each.counts != NOTHING for each in found.left)


def test_windows_are_cut_at_midnight() -> None:
    noon = START + timedelta(hours=12)
    days = Window(noon, noon + timedelta(days=2)).days()

    assert [(minute(day.start), minute(day.end)) for day in days] == [(720, 1440), (1440, 2880), (2880, 3600)]
    assert plus(counts(A), counts(B)) == counts(A + B)
