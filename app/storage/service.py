"""StorageQuota: how much of requests, events, conversations and files an account may keep."""

from app.db import Database, Reader
from app.errors import InsufficientStorage
from app.ids import AccountId
from app.storage.repository import compact_changes, stored_bytes

_COMPACT_BATCH = 10_000


class StorageFull(InsufficientStorage):
    """The account keeps as much as it may; delete runs or conversations."""


class StorageQuota:
    """Refuses new contents to accounts that keep as much as they may."""

    def __init__(self, database: Database, max_bytes: int | None) -> None:
        self._database = database
        self._max_bytes = max_bytes

    async def require_room(self, reader: Reader, account_id: AccountId, more_bytes: int = 0) -> None:
        """Raise `StorageFull` unless the account may keep so many bytes more."""
        if self._max_bytes is None:
            return
        held = await stored_bytes(reader, account_id)
        if held + more_bytes > self._max_bytes:
            message = (
                f"The account keeps {held} bytes of {self._max_bytes} it may keep, and this would add "
                f"{more_bytes}; delete runs or conversations."
            )
            raise StorageFull(message)

    async def compact(self) -> None:
        """Keep looking up what an account keeps quick."""
        async with self._database.transaction() as tx:
            await compact_changes(tx, most=_COMPACT_BATCH)
