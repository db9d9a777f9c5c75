"""Background work: periodic jobs, races of several waits, work that no cancellation interrupts."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import structlog

from app.errors import Unavailable

log = structlog.get_logger(__name__)

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 1.0

Step = Callable[[], Awaitable[object]]
Result = TypeVar("Result")


async def forever(step: Step, every_s: float, *, name: str) -> NoReturn:
    """Call `step` now and then every so many seconds, until cancelled.

    An exception is logged under `name` and ends only that call. After failures the pause is at least
    an exponential backoff. A step that waits for its work itself needs no pause: `every_s` is 0.
    """
    failures = 0
    while True:
        failures = failures + 1 if await _fails(step, name) else 0
        await asyncio.sleep(_pause_s(every_s, failures))


async def until(condition: Callable[[], Awaitable[bool]], every_s: float, *, name: str) -> None:
    """Call `condition` now and then every so many seconds, until it returns True.

    Failures are treated as in `forever`.
    """
    is_met = asyncio.Event()

    async def check() -> None:
        if await condition():
            is_met.set()

    await first_of(is_met.wait(), forever(check, every_s, name=name))


@dataclass(frozen=True, slots=True)
class First:
    """The winner of a race: its index among the arguments, and its result."""

    index: int
    result: Any


async def first_of(*waits: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> First | None:
    """Wait until one of these has finished and return it; None after the timeout.

    If several have finished, the one that was passed first wins. Raises what the winner raises. The
    others are cancelled and have ended when this returns or raises.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        winner = next((task for task in tasks if task.done()), None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return None if winner is None else First(tasks.index(winner), winner.result())


async def run_to_completion(work: Coroutine[Any, Any, Result]) -> Result:
    """Finish the work even if we are cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def _fails(step: Step, name: str) -> bool:
    try:
        await step()
    except Unavailable as error:
        log.warning("background.delayed", job=name, reason=error.detail)
    except Exception:
        # The next call may succeed, and the server must keep running.
        log.exception("background.failed", job=name)
    else:
        return False
    return True


def _pause_s(every_s: float, failures: int) -> float:
    if failures == 0:
        return every_s
    # The exponent is bounded: a larger power would overflow.
    backoff_s: float = FIRST_BACKOFF_S * 2 ** min(failures - 1, 10)
    return max(every_s, min(backoff_s, LONGEST_BACKOFF_S))
