"""Receipts: written exactly once, read by dashboards."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import structlog

from app.billing.pricing import Charge, UnknownPrice, charge, cost_of
from app.billing.repository import (
    Receipt,
    ReceiptFilter,
    RunTotals,
    insert_receipt,
    newest_receipts,
    receipts_of_run,
    totals_of_runs,
)
from app.db import Database
from app.errors import Invalid, Unavailable
from app.ids import AccountId, RunKey
from app.paging import Cursor
from app.usage import Attribution, UsageFact

log = structlog.get_logger(__name__)

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


class ReceiptWriter:
    """Turns facts into receipts."""

    def __init__(self, database: Database, *, markup: Decimal) -> None:
        self._database = database
        self._markup = markup

    async def record(self, fact: UsageFact, attribution: Attribution) -> bool:
        """Write the receipt of a fact; False when it was there already.

        With the database away it tries again for as long as the caller lets it: a receipt is
        never dropped, and the key makes a second delivery harmless.
        """
        priced = self._price(fact)
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                try:
                    async with self._database.transaction() as tx:
                        return await insert_receipt(tx, fact, attribution, priced)
                except Unavailable as error:
                    log.warning("a receipt must wait", reason=error.detail, of=fact.source_reference)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        except asyncio.CancelledError:
            # The server stops while the database is away: the log is where the numbers are left.
            log.critical("a receipt may be missing", fact=asdict(fact), charge=asdict(priced))
            raise

    def _price(self, fact: UsageFact) -> Charge:
        try:
            cost = cost_of(fact.model, fact.usage, at=datetime.now(UTC))
        except UnknownPrice:
            # The API served a model nobody asked for. The tokens are kept; somebody must look.
            log.error(  # noqa: TRY400 - the model's name says it all
                "a message without a price", model=fact.model, of=fact.source_reference
            )
            cost = Decimal(0)
        return charge(cost, markup=self._markup)


class Receipts:
    """Reads receipts, always of one account."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, run: RunKey) -> list[Receipt]:
        """A run's receipts, oldest first."""
        async with self._database.snapshot() as reader:
            return await receipts_of_run(reader, run)

    async def search(
        self,
        account_id: AccountId,
        wanted: ReceiptFilter,
        *,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[Receipt], str | None]:
        """Receipts newest first, and the cursor of the next page; raises `Invalid` for `cursor`."""
        before = None if cursor is None else _position(cursor)
        async with self._database.snapshot() as reader:
            found = await newest_receipts(reader, account_id, wanted, limit=limit + 1, before=before)
        if len(found) <= limit:
            return found, None
        last = found[limit - 1]
        return found[:limit], Cursor(last.created_at, str(last.id)).encode()

    async def totals(self, account_id: AccountId, run_ids: Sequence[str]) -> dict[str, RunTotals]:
        """What these runs have been charged so far; runs without receipts count as zero."""
        async with self._database.snapshot() as reader:
            found = await totals_of_runs(reader, account_id, run_ids)
        return {run_id: found.get(run_id, RunTotals()) for run_id in run_ids}


def _position(cursor: str) -> Cursor:
    position = Cursor.decode(cursor)
    try:
        UUID(position.id)
    except ValueError as error:
        raise Invalid.field("cursor", "is not a cursor of this list") from error
    return position
