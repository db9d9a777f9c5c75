"""Background work: periodic jobs, races of several waits, work that no cancellation interrupts."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import structlog

from app.errors import Unavailable

log = structlog.get_logger(__name__)

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 1.0
AFTER_START_S = 5.0
"""When periodic work that is not urgent begins: until then a new process answers requests."""

_MOST_LOGGED = 10
"""Different failures of a job that are logged before it succeeds."""

Step = Callable[[], Awaitable[object]]
Result = TypeVar("Result")


async def forever(step: Step, every_s: float, *, name: str, first_after_s: float = 0) -> NoReturn:
    """Call `step` now or after `first_after_s`, and then every so many seconds, until cancelled.

    An exception is logged under `name` and ends only that call; one that repeats is logged once. After
    failures the pause is at least an exponential backoff. A step that waits for its work itself needs no
    pause: `every_s` is 0.
    """
    failures = _Failures(name)
    await asyncio.sleep(first_after_s)
    while True:
        await failures.call(step)
        await asyncio.sleep(_pause_s(every_s, failures.count))


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


async def first_of(
    *waits: Coroutine[Any, Any, Any] | asyncio.Task[Any], timeout_s: float | None = None
) -> First | None:
    """Wait until one of these has finished and return it; None after the timeout.

    If several have finished, the one that was passed first wins. Raises what the winner raises. The
    others are cancelled and have ended when this returns or raises. A task is only waited for: it goes on
    when another wins, and its result is its owner's.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    own = [task for task, wait in zip(tasks, waits, strict=True) if task is not wait]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        winner = next((task for task in tasks if task.done()), None)
    finally:
        for task in own:
            task.add_done_callback(_look_at)
            task.cancel()
        await _ended(own)
    if winner is None:
        return None
    return First(tasks.index(winner), winner.result() if winner in own else None)


async def run_to_completion(work: Coroutine[Any, Any, Result]) -> Result:
    """Finish the work even if we are cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.create_task(work)
    await _ended([task])
    return task.result()


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait until these have ended, even if we are cancelled meanwhile; that is raised afterwards.

    Not `gather`: it would raise the cancellation of a task, which the scope of ours does not know as its own.
    """
    cancelled: asyncio.CancelledError | None = None
    while unfinished := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _look_at(task: asyncio.Task[Any]) -> None:
    """What a loser raises interests no one: asyncio would log it."""
    if not task.cancelled():
        task.exception()


class _Failures:
    """The failures of a job since its last success."""

    def __init__(self, name: str) -> None:
        self.count = 0
        self._name = name
        self._logged: set[str] = set()

    async def call(self, step: Step) -> None:
        """Call the step; log its failure unless it is known, and its first success afterwards."""
        try:
            await step()
        except Unavailable as error:
            self.count += 1
            if not error.is_logged and self._is_new(error.detail):
                log.warning("background.delayed", job=self._name, reason=error.detail)
        except Exception as error:
            # The next call may succeed, and the server must keep running.
            self.count += 1
            if self._is_new(f"{type(error).__name__} {error}"):
                log.exception("background.failed", job=self._name)
        else:
            if self._logged:
                log.info("background.resumed", job=self._name, failures=self.count)
            self.count, self._logged = 0, set()

    def _is_new(self, failure: str) -> bool:
        # The number of different ones is limited: a text may contain anything, such as a time.
        is_new = failure not in self._logged and len(self._logged) < _MOST_LOGGED
        if is_new:
            self._logged.add(failure)
        return is_new


def _pause_s(every_s: float, failures: int) -> float:
    if failures == 0:
        return every_s
    # The exponent is bounded: a larger power would overflow.
    backoff_s: float = FIRST_BACKOFF_S * 2 ** min(failures - 1, 10)
    return max(every_s, min(backoff_s, LONGEST_BACKOFF_S))
