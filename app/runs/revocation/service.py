"""KeyRevocation: revokes an API key and, on request, stops its runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from app.ids import ApiKeyId, RunKey
from app.platform.db import Database
from app.runs.commands.repository import request_cancel
from app.runs.revocation.repository import unfinished_runs_of


@dataclass(frozen=True, slots=True)
class KeyRevocation:
    """Cancels runs in the database: the processes that execute them see it with their next heartbeat."""

    database: Database
    revoke_key: Callable[[ApiKeyId], Awaitable[None]]
    """Has committed when it returns: from then on no run of the key is accepted."""
    deliver_cancels: Callable[[Sequence[RunKey]], Awaitable[None]] | None = None
    """Lets them see it at once."""

    async def revoke(self, key_id: ApiKeyId, *, stop_runs: bool) -> int:
        """Revoke a key; returns how many of its runs were requested to stop. Raises `KeyNotFound`.

        May be repeated, also to stop the runs of a key that was revoked earlier.
        """
        await self.revoke_key(key_id)
        if not stop_runs:
            return 0
        async with self.database.read() as reader:
            runs = await unfinished_runs_of(reader, key_id)
        for run in runs:
            # Each for itself: together they and a heartbeat could wait for each other's rows.
            async with self.database.write() as tx:
                await request_cancel(tx, run)
        if self.deliver_cancels is not None:
            await self.deliver_cancels(runs)
        return len(runs)
