"""Objects: large contents outside the database, each written before what refers to it is committed."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final

import structlog
from anyio import CapacityLimiter

from app.ids import AccountId
from app.platform.background import forever, until
from app.platform.db import Database, Transaction
from app.platform.objects import repository
from app.platform.objects.documents import LARGE_BYTES, StoredDocument, restored_text
from app.platform.objects.storage import ContentsUnavailable, ObjectStorage

log = structlog.get_logger(__name__)

_KEPT_UNUSED: Final = timedelta(minutes=10)
"""Longer than from writing a content to the commit of what refers to it; after that, it is written again."""

_AT_ONCE: Final = 8
_SWEEP_INTERVAL_S: Final = 30.0
_SWEPT_AT_ONCE: Final = 10
_TAKEN_AT_ONCE: Final = 1_000
_LOOKED_AT: Final = 3
"""So many contents are not all lost, one by one."""


class Objects:
    """Without a storage everything stays in the database."""

    def __init__(self, outside: tuple[Database, ObjectStorage] | None = None) -> None:
        """`outside`: where large contents are, and the database that refers to them."""
        self._outside = outside
        self._requests = CapacityLimiter(_AT_ONCE)

    @property
    def are_outside(self) -> bool:
        """Whether large contents are stored outside the database."""
        return self._outside is not None

    def takes(self, size: int) -> bool:
        """Whether a content of so many bytes is stored outside."""
        return self.are_outside and size > LARGE_BYTES

    async def write(self, account_id: AccountId, contents: Mapping[str, bytes]) -> None:
        """Write contents by SHA-256, for rows that a transaction will insert and that then `hold` them.

        Raises `ContentsUnavailable`, `DatabaseUnavailable`.
        """
        if not contents or self._outside is None:
            return
        database, storage = self._outside
        sizes = {sha256: len(content) for sha256, content in contents.items()}
        # Committed before anything is written: what is written and never referred to is found and deleted.
        async with database.write() as tx:
            await repository.announce(tx, account_id, sizes, keep=_KEPT_UNUSED)
        async with database.read() as reader:
            used = await repository.find_used(reader, account_id, contents)

        async def put(sha256: str) -> None:
            async with self._requests:
                if sha256 not in used or await storage.is_lost(account_id, sha256):
                    await storage.put(account_id, sha256, contents[sha256])

        await asyncio.gather(*map(put, contents))

    async def hold(self, tx: Transaction, account_id: AccountId, hashes: Collection[str]) -> None:
        """Keep contents that were written until this transaction, which refers to them, is committed.

        Raises `ContentsUnavailable` if that was so long ago that they may be deleted.
        """
        if hashes and await repository.lock_objects(tx, account_id, hashes) != set(hashes):
            raise ContentsUnavailable

    async def read(self, account_id: AccountId, hashes: Iterable[str]) -> dict[str, bytes]:
        """Contents by SHA-256; raises `ContentsUnavailable`, `ContentLost`."""
        found: dict[str, bytes] = {}
        if not (wanted := set(hashes)):
            return found
        if self._outside is None:
            log.error("objects.not_configured")
            raise ContentsUnavailable
        storage = self._outside[1]

        async def get(sha256: str) -> None:
            async with self._requests:
                found[sha256] = await storage.get(account_id, sha256)

        await asyncio.gather(*map(get, wanted))
        return found

    async def text(self, document: StoredDocument) -> str:
        """The JSON text of a document; raises `ContentsUnavailable`, `ContentLost`."""
        if not document.objects:
            return document.text
        contents = await self.read(document.account_id, document.objects)
        return await asyncio.to_thread(restored_text, document.text, contents)

    async def sweep(self) -> None:
        """Log whether the storage is not that of the rows; delete what nothing refers to until cancelled."""
        if self.are_outside:
            await until(self._look, _SWEEP_INTERVAL_S, name="objects.look")
            await forever(self._delete_all_unused, _SWEEP_INTERVAL_S, name="objects.sweep")

    async def delete_unused(self) -> int:
        """Delete some contents that nothing refers to; returns how many were looked at.

        Raises `ContentsUnavailable`; what cannot be deleted holds up nothing else.
        """
        if self._outside is None:
            return 0
        database, storage = self._outside
        async with database.write() as tx:
            await repository.take_released(tx, most=_TAKEN_AT_ONCE)
        failed = None
        async with database.transaction() as tx:
            due = await repository.lock_due(tx, most=_SWEPT_AT_ONCE)
            for key in due:
                if await repository.find_used(tx, key.account_id, [key.sha256]):
                    await repository.keep_object(tx, key)
                    continue
                try:
                    await storage.delete(key.account_id, key.sha256)
                except ContentsUnavailable as error:
                    failed = error
                    await repository.keep_object(tx, key, at_least=_KEPT_UNUSED)
                    break
                await repository.delete_object(tx, key)
        if failed is not None:
            raise failed
        return len(due)

    async def _look(self) -> bool:
        if self._outside is not None and await are_elsewhere(*self._outside):
            log.error("objects.elsewhere")
        return True

    async def _delete_all_unused(self) -> None:
        while await self.delete_unused() == _SWEPT_AT_ONCE:
            pass


async def are_elsewhere(database: Database, storage: ObjectStorage | None) -> bool:
    """Whether contents that rows refer to were written to another storage than this, or with another key."""
    async with database.read() as reader:
        some = await repository.find_some(reader, most=_LOOKED_AT)
    return bool(some) and (storage is None or all([await storage.is_lost(*key) for key in some]))


INSIDE: Final = Objects()
"""Everything stays in the database."""
