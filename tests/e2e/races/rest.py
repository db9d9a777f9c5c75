"""Nothing goes on once nothing is asked for any more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any

from app.streams.memory import MemoryEventLog
from tests.e2e.parking import idle_pids
from tests.e2e.races.arena import Arena, Door, rows
from tests.e2e.stories import cli_processes

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
    looks: list[Callable[[], Iterable[Any]]] = [partial(_busy_processes, arena)]
    looks += [partial(_held, door) for door in arena.doors]
    for look in looks:
        if stays := await _what_stays(look):
            yield f"{stays} stay"


def _busy_processes(arena: Arena) -> list[Any]:
    idle = {pid for door in arena.doors for pid in idle_pids(door.services)}
    return [process for process in cli_processes() if process.pid not in idle]


def _held(door: Door) -> Iterator[Any]:
    """What a server process still holds of runs that have ended."""
    runs, events = door.services.runs, door.services.log
    yield from runs.supervisor._active
    yield from door.run_folders()
    if taken := door.services.dispatcher.places.taken:
        yield f"{taken} places"
    yield from door.services.commands._waiting._sizes
    if isinstance(events, MemoryEventLog) and len(events) > 0:
        yield f"{len(events)} event logs"


async def _what_stays(look: Callable[[], Iterable[Any]]) -> list[Any]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REST_S):
            while list(look()):
                await asyncio.sleep(0.02)
    return list(look())
