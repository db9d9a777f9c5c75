"""Corrects receipts charged at a wrong price, by inserting adjustments; receipts are never edited."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from app.billing.prices.price_list import PriceList
from app.billing.receipts.records import NewReceipt, Receipt
from app.billing.receipts.repository import find_adjustments, find_used_since, insert_receipts
from app.billing.receipts.repricing import RepricingResult
from app.billing.receipts.void_messages import VOID
from app.platform.db import Database, Transaction

CORRECTION = "runtally_correction"
"""The source system of corrections."""

_SLICE = 500


async def correct(
    database: Database, prices: PriceList, *, used_since: datetime, dry_run: bool = False
) -> RepricingResult:
    """Insert an adjustment, of either sign, for every message whose price is another one now.

    A receipt that still waits for a price is left to `reprice`; one that was taken back stays so. Each slice
    is a transaction. Another process that does the same at this time inserts the other adjustments.
    """
    adjusted, cost, unknown = 0, Decimal(0), set[str]()
    after: UUID | None = None
    while True:
        async with database.transaction() as tx:
            found = await find_used_since(tx, used_since, after=after, limit=_SLICE)
            corrections, unpriced = await _corrections(tx, found, prices)
            inserted = set() if dry_run else (await insert_receipts(tx, corrections)).charged
        unknown.update(unpriced)
        new = [each for each in corrections if dry_run or each.id in inserted]
        adjusted += len(new)
        cost += sum((each.cost_usd for each in new), Decimal(0))
        if len(found) < _SLICE:
            return RepricingResult(adjusted, cost, tuple(sorted(unknown)))
        after = found[-1].id


async def _corrections(
    tx: Transaction, receipts: Sequence[Receipt], prices: PriceList
) -> tuple[list[NewReceipt], list[str]]:
    earlier: defaultdict[tuple[UUID, str, int, str], list[Receipt]] = defaultdict(list)
    for adjustment in await find_adjustments(tx, receipts):
        earlier[adjustment.message].append(adjustment)
    corrections, unpriced = list[NewReceipt](), list[str]()
    for receipt in receipts:
        adjustments = earlier[receipt.message]
        if receipt.basis == "unpriced" and not adjustments:
            continue
        if any(each.source_system == VOID for each in adjustments):
            continue
        charge = prices.charge(receipt.billed, at=receipt.used_at)
        unpriced += charge.unpriced
        if charge.unpriced or charge.cost_usd == sum(
            (each.cost_usd for each in adjustments), receipt.cost_usd
        ):
            continue
        corrections.append(receipt.adjustment(charge, source_system=CORRECTION, earlier=adjustments))
    return corrections, unpriced
