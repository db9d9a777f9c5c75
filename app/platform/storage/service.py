"""StorageQuota: limits the requests, events, conversations and files an account stores."""

from app.errors import InsufficientStorage
from app.ids import AccountId
from app.platform.db import Database, Transaction
from app.platform.storage.repository import compact_changes, stored_bytes


class StorageFull(InsufficientStorage):
    """The account's storage quota is used up; delete runs or conversations."""


class StorageQuota:
    """Refuses new contents to accounts that have used up their quota."""

    def __init__(self, database: Database, max_bytes: int | None) -> None:
        self._database = database
        self.max_bytes = max_bytes
        """Of each account; None: no limit."""

    async def require_room(self, tx: Transaction, account_id: AccountId, more_bytes: int = 0) -> None:
        """Raise `StorageFull` unless the account may store so many more bytes."""
        if self.max_bytes is None:
            return
        stored = await stored_bytes(tx, account_id)
        if stored + more_bytes > self.max_bytes:
            raise StorageFull(
                f"The account stores {stored} bytes of its quota of {self.max_bytes}, and this would add "
                f"{more_bytes}; delete runs or conversations."
            )

    async def compact(self) -> None:
        """Compact the changes of accounts that store nothing which is refused without room."""
        async with self._database.write() as tx:
            await compact_changes(tx)
