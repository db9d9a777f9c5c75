"""Nothing goes on once nothing is asked for any more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from app.bootstrap.services import Services
from app.streams.memory import MemoryEventLog
from tests.e2e.parking import idle_pids
from tests.e2e.races.arena import Arena, Door, rows
from tests.e2e.stories import cli_processes
from tests.e2e.test_one_command_with_several_processes import Command

REST_S = 30.0
"""Everything has come to its end within this time after the last answer."""


async def unrest(arena: Arena) -> AsyncIterator[str]:
    """What does not come to rest."""
    going = "SELECT run_id, status FROM runs WHERE ended_at IS NULL"
    try:
        async with asyncio.timeout(REST_S):
            while await rows(arena, going):
                await asyncio.sleep(0.05)
    except TimeoutError:
        for row in await rows(arena, going):
            yield f"{row['run_id']} stays {row['status']}"
    looks: list[Callable[[], Awaitable[list[Any]]]] = [partial(_busy_processes, arena)]
    looks += [partial(_held, door) for door in arena.doors]
    for look in looks:
        if stays := await _what_stays(look):
            yield f"{stays} stay"


async def _busy_processes(arena: Arena) -> list[Any]:
    idle = {pid for door in arena.doors for services in door.services for pid in idle_pids(services)}
    return [process for process in cli_processes() if process.pid not in idle]


async def _held(door: Door) -> list[Any]:
    """What a server still holds of runs that have ended."""
    held: list[Any] = list(door.run_folders())
    if isinstance(door.server, Command):
        active = await door.server.metric("runtally_runs_active")
        return held + [f"{count} active runs in process {name}" for name, count in active.items() if count]
    return held + list(_held_here(door.server))


def _held_here(services: Services) -> Iterator[Any]:
    yield from services.runs.supervisor._active
    if taken := services.dispatcher.places.taken:
        yield f"{taken} places"
    yield from services.commands._waiting._sizes
    if isinstance(services.log, MemoryEventLog) and len(services.log) > 0:
        yield f"{len(services.log)} event logs"


async def _what_stays(look: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REST_S):
            while await look():
                await asyncio.sleep(0.02)
    return await look()
