"""Another task on the event loop, to see how often others let it run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Bystander:
    """Counts how often it ran."""

    turns: int = 0

    async def run(self) -> None:
        """Run as often as the event loop lets it, until cancelled."""
        while True:
            self.turns += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def a_bystander() -> AsyncIterator[Bystander]:
    """Let one run beside the body."""
    bystander = Bystander()
    running = asyncio.create_task(bystander.run())
    try:
        yield bystander
    finally:
        running.cancel()
