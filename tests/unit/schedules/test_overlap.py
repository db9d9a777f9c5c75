"""What happens to a due time while an earlier run has not ended."""

import pytest

from app.schedules.overlap import Decision, Occupancy, Overlap, decide, may_start

FREE = Occupancy(is_starting=False, is_running=False, is_waiting=False)
STARTING = Occupancy(is_starting=True, is_running=False, is_waiting=False)
RUNNING = Occupancy(is_starting=False, is_running=True, is_waiting=False)
WAITING = Occupancy(is_starting=False, is_running=True, is_waiting=True)
LEFT_WAITING = Occupancy(is_starting=False, is_running=False, is_waiting=True)
"""The earlier run has just ended."""


@pytest.mark.parametrize(
    ("overlap", "decisions"),
    [
        ("skip", ["start", "skip", "skip", "skip", "skip"]),
        ("queue", ["start", "wait", "wait", "skip", "skip"]),
        ("cancel", ["start", "wait", "start", "wait", "wait"]),
        ("allow", ["start", "start", "start", "start", "start"]),
    ],
)
def test_a_new_due_time(overlap: Overlap, decisions: list[Decision]) -> None:
    occupancies = [FREE, STARTING, RUNNING, WAITING, LEFT_WAITING]

    assert [decide(overlap, occupancy) for occupancy in occupancies] == decisions


@pytest.mark.parametrize(
    ("overlap", "decisions"),
    [
        ("skip", [True, False, False]),
        ("queue", [True, False, False]),
        ("cancel", [True, False, True]),
        ("allow", [True, True, True]),
    ],
)
def test_a_due_time_that_waits(overlap: Overlap, decisions: list[bool]) -> None:
    assert [may_start(overlap, occupancy) for occupancy in (FREE, STARTING, RUNNING)] == decisions
