"""KeyRevocation: revokes an API key and, on request, stops its runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.db import Database
from app.ids import ApiKeyId
from app.runs.commands.repository import insert_command, pending_commands
from app.runs.commands.service import Stop
from app.runs.revocation.repository import unfinished_runs_of


@dataclass(frozen=True, slots=True)
class KeyRevocation:
    """Works on the database alone: the processes that execute the runs read the stop commands there."""

    database: Database
    revoke_key: Callable[[ApiKeyId], Awaitable[None]]
    """Has committed when it returns: from then on no run of the key is accepted."""

    async def revoke(self, key_id: ApiKeyId, *, stop_runs: bool) -> int:
        """Revoke a key; returns how many of its runs were requested to stop. Raises `KeyNotFound`.

        May be repeated, also to stop the runs of a key that was revoked earlier.
        """
        await self.revoke_key(key_id)
        if not stop_runs:
            return 0
        stop = Stop(kind="cancel")
        async with self.database.transaction() as tx:
            runs = await unfinished_runs_of(tx, key_id)
            for run in runs:
                if stop.kind not in (await pending_commands(tx, run)).stops:
                    await insert_command(tx, run, stop.model_dump(mode="json", by_alias=True))
        return len(runs)
