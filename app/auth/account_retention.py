"""AccountRetention: for how long the contents of single accounts are kept."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic.alias_generators import to_camel

from app.auth.records import AccountRecord
from app.auth.repository import lock_account, update_retention
from app.errors import Invalid
from app.ids import AccountId
from app.platform.audit.records import SERVER, Actor, Change
from app.platform.audit.repository import record_change
from app.platform.db import Database
from app.platform.storage.records import Retention


@dataclass(frozen=True, slots=True)
class AccountRetention:
    """Accounts may keep contents for less than the deployment does, not for longer."""

    database: Database
    by_default: Retention

    async def change(
        self, account_id: AccountId, changed: Mapping[str, int | None], *, by: Actor = SERVER
    ) -> AccountRecord:
        """Set days; None: as by default. Raises `Invalid` for more than that."""
        self._require_within(changed)
        async with self.database.transaction() as tx:
            account = await lock_account(tx, account_id)
            retention = replace(account.retention, **changed)
            if retention != account.retention:
                await update_retention(tx, account_id, retention)
                values = account.retention.days, retention.days
                await record_change(
                    tx, by, Change(account_id, "account.retention_set", str(account_id), *values)
                )
        return replace(account, retention=retention)

    def _require_within(self, changed: Mapping[str, int | None]) -> None:
        for kind, days in changed.items():
            most = self.by_default.days.get(kind)
            if days is not None and most is not None and days > most:
                raise Invalid.field(
                    f"retention.{to_camel(kind)}", f"must be at most {most}, as for all accounts"
                )
