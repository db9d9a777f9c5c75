"""LedgerEntries: every change of an account's credit, with the balance after it."""

from dataclasses import fields

from app.billing.credit.repository import find_balance
from app.billing.ledger.records import HOLDS, LedgerPosition, ListedEntry
from app.billing.ledger.repository import find_entries
from app.ids import AccountId
from app.platform.db import Database

_STORED = [field.name for field in fields(ListedEntry) if field.name != "balance_after"]


class LedgerEntries:
    """Lists the ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_entries(
        self, account_id: AccountId, *, limit: int, cursor: str | None
    ) -> tuple[list[ListedEntry], str | None]:
        """Entries newest first, and the cursor of the next page; raises `Invalid` naming `cursor`.

        A page goes on from the balance in its cursor: nothing is ever entered before an older entry, so the
        balance there never changes, and a long ledger is not summed again for every page.
        """
        start = None if cursor is None else LedgerPosition.decode(cursor)
        async with self._database.snapshot() as reader:
            balance = (await find_balance(reader, account_id)).balance if start is None else start.balance
            before = None if start is None else start.position
            rows = await find_entries(reader, account_id, before=before, limit=limit + 1)
        found = []
        for row in rows[:limit]:
            found.append(ListedEntry(**{name: row[name] for name in _STORED}, balance_after=balance))
            balance -= 0 if row["kind"] in HOLDS else row["credits"]
        more = len(rows) > limit
        return found, LedgerPosition(found[-1].position, balance).encode() if more else None
