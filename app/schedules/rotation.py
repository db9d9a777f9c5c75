"""KeyRotation: replaces an API key, and lets its schedules and batches go on with the new one."""

from dataclasses import dataclass
from datetime import timedelta

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.ids import ApiKeyId
from app.platform.audit.records import Actor
from app.platform.db import Database
from app.requests.principal import Principal
from app.runs.batches.repository import move_batches
from app.schedules.repository import move_schedules


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """One transaction: what a key has ordered is never without a valid key."""

    database: Database
    accounts: Accounts

    async def rotate(
        self, key_id: ApiKeyId, overlap: timedelta, *, caller: Principal | None, by: Actor
    ) -> tuple[KeyRecord, str]:
        """Create a key with the same rights; the old one ends after `overlap`. Returns it and the key itself.

        `caller` is None for an operator. Raises `KeyNotFound`, `KeyEnded`, `ExceedsOwnRights`.
        """
        async with self.database.transaction() as tx:
            new, secret = await self.accounts.replace_key(tx, key_id, overlap, caller=caller, by=by)
            await move_schedules(tx, key_id, new.id)
            await move_batches(tx, key_id, new.id)
        return new, secret
