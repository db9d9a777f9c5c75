"""QueueMaintenance: releases and cancels queued runs when no run's end does so."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from app.ids import RunKey
from app.platform.background import forever
from app.runs.dispatch.port import Dispatcher
from app.runs.dispatch.queue import RunQueue

_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class QueueMaintenance:
    """Runs whose time has come, more places since a worker has started, cancels that were only stored."""

    queue: RunQueue
    dispatcher: Dispatcher
    stop: Callable[[RunKey, Literal["cancel"]], Awaitable[object]]
    """Ends a queued run."""

    async def watch(self) -> None:
        """Look for them until cancelled."""
        await forever(self.step, _EVERY_S, name="queue")

    async def step(self) -> None:
        """Do so if this is the process that does it for all."""
        if not self.dispatcher.is_first:
            return
        due = await self.queue.due()
        for account_id, conversation in due.to_release:
            await self.queue.release(account_id, conversation)
        for run in due.to_cancel:
            await self.stop(run, "cancel")
