"""When a run must end, and when only its turn must."""

import asyncio
from datetime import timedelta

from app.executors.deadline import RunDeadline
from app.executors.port import ABORTED, BUDGET, INTERNAL, TIMEOUT, RunOutcome
from tests.factories import a_control
from tests.patience import PATIENCE_S

LONG = timedelta(seconds=10 * PATIENCE_S)


async def next_stop(deadline: RunDeadline) -> RunOutcome | None:
    async with asyncio.timeout(PATIENCE_S):
        return await deadline.next_stop()


async def test_time_that_is_up_ends_the_run() -> None:
    deadline = RunDeadline(a_control(), timedelta(seconds=0.01))

    assert await next_stop(deadline) == TIMEOUT
    assert deadline.outcome == TIMEOUT


async def test_time_counts_from_the_start_and_not_from_the_look_at_it() -> None:
    deadline = RunDeadline(a_control(), timedelta())

    assert await next_stop(deadline) == TIMEOUT


async def test_a_cancel_ends_the_run_and_an_interrupt_its_turn() -> None:
    control = a_control()
    deadline = RunDeadline(control, LONG)
    control.stop_turn.set()

    assert await next_stop(deadline) is None
    assert deadline.outcome is None

    control.stop.set()
    assert await next_stop(deadline) == ABORTED


async def test_a_limit_that_is_reached_ends_the_run_and_the_first_reason_stays() -> None:
    deadline = RunDeadline(a_control(), LONG)
    waiting = asyncio.create_task(next_stop(deadline))
    await asyncio.sleep(0)
    deadline.stop(BUDGET)
    deadline.stop(INTERNAL)

    assert await waiting == BUDGET
    assert await next_stop(deadline) == BUDGET
