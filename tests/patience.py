"""How long tests wait for what must happen, and how they do."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

PATIENCE_S = 120.0
"""Only ends what hangs: no machine is so busy that it takes this long."""

_FIRST_S, _LONGEST_S = 0.01, 0.25


async def until_shown(http: httpx.AsyncClient, path: str, wanted: Callable[[Any], bool]) -> Any:
    """What this path shows, once that is as wanted; fails when it does not become so.

    It is asked for ever more rarely: an answer takes milliseconds of CPU, at which a run waits, too.
    """
    pause_s = _FIRST_S
    async with asyncio.timeout(PATIENCE_S):
        while not wanted(shown := (await http.get(path)).json()):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.4, _LONGEST_S)
    return shown
