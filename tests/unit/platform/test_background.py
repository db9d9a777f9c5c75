import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from structlog.testing import capture_logs

from app.errors import Unavailable
from app.platform.background import LONGEST_BACKOFF_S, First, _pause_s, first_of, forever, until
from tests.patience import PATIENCE_S
from tests.unit.waiting import turns
from tests.virtual_time import in_virtual_time

JOB = "test job"


class KnownToBeAway(Unavailable):
    """A service whose outage has log lines of its own."""

    is_logged = True


class Steps:
    """A step that raises these exceptions one after the other, and counts its calls."""

    def __init__(self, *failures: Exception) -> None:
        self.calls = 0
        self._failures = list(failures)
        self._called = asyncio.Condition()

    async def __call__(self) -> None:
        self.calls += 1
        async with self._called:
            self._called.notify_all()
        if self._failures:
            raise self._failures.pop(0)

    async def called(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self._called:
            await self._called.wait_for(lambda: self.calls >= times)


async def cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_virtual_time
async def test_a_loop_goes_on_after_failures_and_logs_each_kind_once() -> None:
    away, gone = Unavailable("The disk is full."), KnownToBeAway()
    steps = Steps(away, gone, away, KeyError("x"), KeyError("x"), KeyError("y"), away)
    with capture_logs() as logs:
        loop: asyncio.Task[None] = asyncio.create_task(forever(steps, 0.001, name=JOB))
        await steps.called(9)
    await cancelled(loop)

    assert [(line["event"], line["log_level"], line["job"]) for line in logs] == [
        ("background.delayed", "warning", JOB),
        ("background.failed", "error", JOB),
        ("background.failed", "error", JOB),
        ("background.resumed", "info", JOB),
    ]
    assert (logs[0]["reason"], logs[-1]["failures"]) == ("The disk is full.", 7)


async def test_a_loop_ends_when_it_is_cancelled_during_a_step() -> None:
    started = asyncio.Event()

    async def step() -> None:
        started.set()
        await asyncio.Event().wait()

    loop: asyncio.Task[None] = asyncio.create_task(forever(step, 0, name=JOB))
    await started.wait()
    await cancelled(loop)


def test_the_pause_grows_with_failures_up_to_a_bound_and_is_never_shorter_than_usual() -> None:
    assert [_pause_s(0, failures) for failures in range(4)] == [0, 0.1, 0.2, 0.4]
    assert _pause_s(0, 10_000) == LONGEST_BACKOFF_S
    assert _pause_s(60, 1) == 60


@in_virtual_time
async def test_until_waits_for_the_condition_across_failures() -> None:
    answers: list[bool | Exception] = [False, KeyError("x"), True]

    async def condition() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with asyncio.timeout(PATIENCE_S):
        await until(condition, 0.001, name=JOB)
    assert answers == []


class Waiter:
    """Waits until it is released or cancelled, and remembers which."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.cleaned_up = False

    async def wait(self) -> str:
        try:
            await self.release.wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned_up = True
        return "released"


async def test_the_first_wait_to_finish_wins_and_the_others_have_ended() -> None:
    slow, quick, other = Waiter(), Waiter(), Waiter()
    quick.release.set()
    other.release.set()
    # Of two that have finished the first argument.
    assert await first_of(slow.wait(), quick.wait(), other.wait()) == First(1, "released")
    assert slow.cleaned_up


async def test_a_race_that_nobody_wins_in_time_has_no_winner() -> None:
    slow = Waiter()
    assert await first_of(slow.wait(), timeout_s=0.001) is None
    assert slow.cleaned_up


async def test_a_task_is_only_waited_for() -> None:
    async def failing() -> None:
        raise KeyError("x")

    slow, quick, failed = (
        asyncio.create_task(asyncio.Event().wait()),
        Waiter(),
        asyncio.create_task(failing()),
    )
    quick.release.set()

    assert await first_of(slow, quick.wait()) == First(1, "released")
    assert await first_of(failed, slow) == First(0, None)
    assert not slow.cancelling()
    slow.cancel()
    assert isinstance(failed.exception(), KeyError)


async def test_a_race_raises_what_its_winner_raises() -> None:
    async def failing() -> None:
        raise KeyError("x")

    slow = Waiter()
    with pytest.raises(KeyError):
        await first_of(slow.wait(), failing())
    assert slow.cleaned_up


@pytest.mark.parametrize("racing", [first_of, lambda *waits: first_of(*waits, timeout_s=10 * PATIENCE_S)])
async def test_a_cancelled_race_leaves_nothing_running(racing: Callable[..., Awaitable[object]]) -> None:
    one, two = Waiter(), Waiter()

    async def race() -> None:
        await racing(one.wait(), two.wait())

    task = asyncio.create_task(race())
    await turns(3)
    await cancelled(task)
    assert one.cleaned_up
    assert two.cleaned_up


async def test_a_race_that_was_won_is_cancelled_by_the_scope_that_it_is_in() -> None:
    """A scope lets any cancellation pass that is not marked as its own, like that of the loser."""
    with anyio.CancelScope() as scope:

        async def loser() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                scope.cancel()

        await first_of(asyncio.sleep(0), loser())

    assert scope.cancelled_caught
