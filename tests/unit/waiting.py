"""Waiting for other tasks of the event loop."""

import asyncio
from collections.abc import Callable

from tests.patience import PATIENCE_S


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until this is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)


async def turns(count: int) -> None:
    """Let other tasks run so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
