"""CallExpiry: resolves the calls of waiting runs whose time is up, and queues the runs."""

from dataclasses import dataclass

from app.platform.background import forever
from app.runs.dispatch.queue import RunQueue
from app.runs.waits.repository import expire_calls, lock_expired

_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class CallExpiry:
    """Several servers may do so at once; calls of a run in a process expire there."""

    queue: RunQueue

    async def watch(self) -> None:
        """Look for such calls until cancelled."""
        await forever(self.sweep, _EVERY_S, name="expiry of calls")

    async def sweep(self) -> None:
        """Resolve those whose time is up."""
        while await self._expire_one():
            pass

    async def _expire_one(self) -> bool:
        # Each in a transaction of its own: those that lock the queues of several accounts could deadlock.
        async with self.queue.database.transaction() as tx:
            if (run := await lock_expired(tx)) is None:
                return False
            await expire_calls(tx, run)
            await self.queue.release_answered(tx, run)
        return True
