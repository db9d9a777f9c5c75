"""BatchWorker: makes the steps of batches; every server process that accepts runs has one."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

from app.platform.background import forever
from app.runs.batches.records import BatchConfig

_AT_ONCE = 4
"""How many batches a process works on at the same time."""


class BatchWorker:
    """Looks often while there are batches, and rarely while there are none."""

    def __init__(self, make_step: Callable[[], Awaitable[bool]], config: BatchConfig) -> None:
        self._make_step = make_step
        self._config = config
        self._created = asyncio.Event()
        # One that has just started finds a batch at its first look, or most likely none soon.
        self._idle_s = math.inf

    def wake(self) -> None:
        self._created.set()

    async def work(self) -> None:
        await forever(self._make_steps, 0, name="batches.step")

    async def _make_steps(self) -> None:
        self._created.clear()
        is_idle = self._idle_s > self._config.poll_s
        made = await asyncio.gather(
            *(self._make_step() for _ in range(1 if is_idle else _AT_ONCE)), return_exceptions=True
        )
        # All of them end before the first error is raised.
        for error in made:
            if isinstance(error, BaseException):
                raise error
        self._idle_s = 0.0 if any(made) else self._idle_s + self._config.pause_s
        if all(made):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.poll_s if is_idle else self._config.pause_s):
                await self._created.wait()
