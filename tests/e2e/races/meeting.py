"""Races from outside an event loop, where Hypothesis lives: an arena that lasts for many of them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeAlias

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from structlog.testing import capture_logs

from tests.e2e.races.arena import Arena
from tests.e2e.races.programs import PROGRAMS, Program
from tests.e2e.races.race import Race
from tests.e2e.races.verdict import problems_of

Hold: TypeAlias = Callable[[Program], list[str]]


@contextmanager
def an_open_arena(opening: AbstractAsyncContextManager[Arena]) -> Iterator[Hold]:
    """Yield what holds one race and says what was wrong."""
    # Not the thread's loop: that belongs to whoever runs the tests.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        stop = asyncio.Event()

        async def keep(ready: "asyncio.Future[Arena]") -> None:
            try:
                async with opening as arena:
                    ready.set_result(arena)
                    await stop.wait()
            except BaseException as error:
                if ready.done():
                    raise
                ready.set_exception(error)

        async def enter() -> tuple[Arena, asyncio.Task[None]]:
            ready: asyncio.Future[Arena] = asyncio.get_running_loop().create_future()
            # A task of its own: an arena must be left by the task that entered it.
            keeping = asyncio.create_task(keep(ready))
            return await ready, keeping

        async def leave(keeping: asyncio.Task[None]) -> None:
            stop.set()
            await keeping

        arena, keeping = runner.run(enter())
        yield lambda program: runner.run(_held(arena, program))
        runner.run(leave(keeping))


async def _held(arena: Arena, program: Program) -> list[str]:
    race = Race(arena, program)
    with capture_logs() as lines:
        await race.hold()
        problems = await problems_of(race)
    return [*problems, *_errors([*lines, *arena.logged()])]


def _errors(lines: Sequence[Any]) -> list[str]:
    """What an operator would be called for."""
    return [
        f"logged {line}"
        for line in lines
        if line.get("log_level", line.get("level")) in {"error", "critical"}
    ]


def each_program(
    check: Callable[[Program], None], *, programs: int, seed: int, phases: tuple[Phase, ...]
) -> None:
    """Draw so many programs, the same ones for the same seed."""

    def body(program: Program) -> None:
        check(program)

    drawn = given(program=PROGRAMS)(body)
    chosen = settings(
        max_examples=programs,
        # Also where no test suite has said so.
        deadline=None,
        database=None,
        phases=phases,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    chosen(hypothesis.seed(seed)(drawn))()
