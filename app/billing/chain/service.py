"""AccountChains: exports of an account's chain, and the roots that seal it."""

from collections.abc import AsyncIterator
from uuid import UUID

from app.billing.chain.export import Record, account_records
from app.billing.chain.records import ChainRoot
from app.billing.chain.repository import find_newest_roots
from app.errors import Invalid
from app.platform.db import Database

_MOST_DIGITS = 18
"""Of the number of a root in a cursor: PostgreSQL's bigint holds it."""


class AccountChains:
    """Reads the chains."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def records(self, account_id: UUID) -> AsyncIterator[Record]:
        """The export of an account's chain; nothing of other accounts is in it."""
        return account_records(self._database, account_id)

    async def roots(self, *, limit: int, cursor: str | None = None) -> tuple[list[ChainRoot], str | None]:
        """Roots, newest first, and the cursor of the next page; raises `Invalid` for `cursor`."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _MOST_DIGITS):
            raise Invalid.field("cursor", "is not a cursor of this list")
        before = None if cursor is None else int(cursor)
        async with self._database.snapshot() as reader:
            found = await find_newest_roots(reader, before=before, limit=limit + 1)
        page = found[:limit]
        return page, str(page[-1].number) if len(found) > limit else None
