"""Planted times: no single clock that jumps decides."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from structlog.testing import capture_logs

from app.platform.clock.clock import TOLERANCE, Clock, Witness
from app.platform.clock.jumps import JumpDetector

START = datetime(2026, 11, 22, 12, tzinfo=UTC)
BOTH: tuple[Witness, Witness] = ("database", "provider")
JUMPS = [timedelta(days=150), timedelta(days=-40), timedelta(minutes=6)]


class Times:
    """A host whose clock can be set, and real time besides."""

    def __init__(self) -> None:
        self.real = START
        self.off = timedelta()
        self.clock = Clock(lambda: self.real + self.off, self.elapsed_s)

    def elapsed_s(self) -> float:
        return 1_000 + (self.real - START).total_seconds()

    def pass_(self, **duration: float) -> None:
        self.real += timedelta(**duration)

    def right(self) -> bool:
        return abs(self.clock.now() - self.real) <= TOLERANCE


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_of_the_host_changes_nothing(jump: timedelta) -> None:
    for witnesses in (BOTH[:1], BOTH[1:], BOTH):
        times = Times()
        for name in witnesses:
            times.clock.observe(name, times.real)
        times.pass_(hours=30)
        times.off = jump
        assert times.right()
        times.pass_(hours=30)
        assert times.right()


def test_it_knows_how_far_it_is_ahead_of_the_database() -> None:
    times = Times()
    unknown = times.clock.ahead_of_database_s
    times.clock.observe("database", times.real - timedelta(minutes=4))
    times.pass_(hours=1)
    ahead = times.clock.ahead_of_database_s
    times.off = timedelta(minutes=-5)

    assert (unknown, ahead, times.clock.ahead_of_database_s) == (0, 240, -60)
    assert times.clock.database_now() == times.real - timedelta(minutes=4)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_of_the_database_or_of_the_provider_changes_nothing(jump: timedelta) -> None:
    for one, other in permutations(BOTH):
        times = Times()
        times.clock.observe(other, times.real)
        times.pass_(hours=1)
        times.clock.observe(one, times.real + jump)
        assert times.clock.now() == times.real


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_of_a_host_that_has_the_database_too_changes_nothing(jump: timedelta) -> None:
    times = Times()
    times.clock.observe("database", times.real)
    times.clock.observe("provider", times.real)
    times.pass_(hours=1)
    times.off = jump
    times.clock.observe("database", times.real + jump)

    assert times.right()


def test_a_host_that_starts_with_a_wrong_time_is_corrected() -> None:
    times = Times()
    times.off = timedelta(days=-20_000)
    times.clock = Clock(lambda: times.real + times.off, times.elapsed_s)
    times.clock.observe("provider", times.real)
    times.clock.observe("database", times.real)
    assert times.right()

    times.off = timedelta()
    times.pass_(hours=1)
    assert times.clock.now() == times.real


def test_without_any_other_clock_a_jump_forward_is_ignored() -> None:
    times = Times()
    times.pass_(minutes=1)
    times.off = timedelta(days=40)

    assert times.right()


def test_small_differences_are_none() -> None:
    times = Times()
    times.clock.observe("provider", times.real - timedelta(minutes=4))
    times.clock.observe("database", times.real - timedelta(minutes=4))
    times.off = timedelta(seconds=30)

    assert times.clock.now() == times.real + times.off


def test_a_clock_that_disagrees_is_an_alarm_once() -> None:
    times = Times()
    with capture_logs() as logs:
        times.clock.observe("provider", times.real)
        times.clock.observe("database", times.real + timedelta(days=40))
        times.clock.observe("database", times.real + timedelta(days=40))
        times.off = timedelta(days=40)
        assert times.clock.now() == times.clock.now() == START
        times.off = timedelta()
        times.clock.now()
        times.off = timedelta(days=40)
        times.clock.now()

    alarms = [(entry["clock"], entry["log_level"]) for entry in logs if entry["event"] == "clock.disagrees"]
    assert alarms == [("database", "critical"), ("host", "critical"), ("host", "critical")]


@pytest.mark.parametrize("jump", [timedelta(seconds=11), timedelta(days=400), timedelta(seconds=-11)])
def test_a_jump_is_noticed_once(jump: timedelta) -> None:
    times = Times()
    detector = JumpDetector(10, times.elapsed_s)
    found = []
    for off in (timedelta(), timedelta(), jump, jump):
        times.pass_(minutes=10)
        found.append(detector.has_jumped(times.real + off))

    assert found == [False, False, True, False]
