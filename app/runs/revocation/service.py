"""KeyRevocation: revokes an API key, and stops the runs of a key or of an account."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.ids import AccountId, ApiKeyId, RunKey
from app.platform.audit.records import SERVER, Actor
from app.platform.db import Database
from app.requests.principal import Principal
from app.runs.commands.repository import request_cancel
from app.runs.revocation.repository import unfinished_runs_of


class RevokeKey(Protocol):
    """Has committed when it returns: from then on no run of the key is accepted."""

    async def __call__(self, key_id: ApiKeyId, /, *, caller: Principal | None, by: Actor) -> None:
        """Revoke a key; raises `KeyNotFound`, `ScopeMissing`."""


@dataclass(frozen=True, slots=True)
class KeyRevocation:
    """Cancels runs in the database: the processes that execute them see it with their next heartbeat."""

    database: Database
    revoke_key: RevokeKey
    deliver_cancels: Callable[[Sequence[RunKey]], Awaitable[None]] | None = None
    """Lets them see it at once."""

    async def revoke(
        self,
        key_id: ApiKeyId,
        *,
        stop_runs: bool,
        caller: Principal | None = None,
        by: Actor = SERVER,
    ) -> int:
        """Revoke a key; returns how many of its runs were requested to stop.

        `caller` is None for an operator. Raises `KeyNotFound`, `ScopeMissing`. May be repeated, also to stop
        the runs of a key that was revoked earlier.
        """
        await self.revoke_key(key_id, caller=caller, by=by)
        return await self.stop_runs(api_key_id=key_id) if stop_runs else 0

    async def stop_runs(
        self, *, api_key_id: ApiKeyId | None = None, account_id: AccountId | None = None
    ) -> int:
        """Cancel all unfinished runs of a key or of an account; returns how many there are."""
        async with self.database.read() as reader:
            runs = await unfinished_runs_of(reader, api_key_id=api_key_id, account_id=account_id)
        for run in runs:
            # Each for itself: together they and a heartbeat could wait for each other's rows.
            async with self.database.write() as tx:
                await request_cancel(tx, run)
        if self.deliver_cancels is not None:
            await self.deliver_cancels(runs)
        return len(runs)
