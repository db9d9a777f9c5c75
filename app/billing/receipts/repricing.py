"""Charges receipts at the prices of now, by inserting adjustments; receipts are never edited."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from uuid import UUID

from app.billing.prices.price_list import PriceList
from app.billing.receipts.records import NewReceipt, Receipt
from app.billing.receipts.repository import (
    find_adjustments,
    find_unadjusted,
    find_used_since,
    insert_receipts,
)
from app.billing.receipts.void_messages import VOID
from app.platform.db import Database, Transaction

REPRICING = "runtally_reprice"
"""The source system of adjustments. It is part of the unique key, so a message is adjusted at most once."""

CORRECTION = "runtally_correction"
"""The source system of corrections."""

_SLICE = 500


@dataclass(frozen=True, slots=True)
class RepricingResult:
    """What was adjusted."""

    adjusted: int
    cost_usd: Decimal
    still_unpriced: tuple[str, ...]
    """What still has no price, as `name=value`."""


async def reprice(database: Database, prices: PriceList) -> RepricingResult:
    """Insert an adjustment for every unpriced receipt whose price is complete now."""
    find = partial(find_unadjusted, adjusted_by=REPRICING)
    return await _adjust(database, find, partial(_completions, prices=prices))


async def correct(
    database: Database, prices: PriceList, *, used_since: datetime, dry_run: bool = False
) -> RepricingResult:
    """Insert an adjustment, of either sign, for every message whose price is another one now.

    A receipt that still waits for a price is left to `reprice`; one that was taken back stays so.
    """
    find = partial(find_used_since, since=used_since)
    return await _adjust(database, find, partial(_corrections, prices=prices), dry_run=dry_run)


async def _adjust(
    database: Database,
    find: Callable[..., Awaitable[list[Receipt]]],
    adjustments_of: Callable[[Transaction, Sequence[Receipt]], Awaitable[tuple[list[NewReceipt], list[str]]]],
    *,
    dry_run: bool = False,
) -> RepricingResult:
    """Each slice is a transaction. Another process that does the same now inserts the other adjustments."""
    adjusted, cost, unknown = 0, Decimal(0), set[str]()
    after: UUID | None = None
    while True:
        async with database.transaction() as tx:
            found = await find(tx, after=after, limit=_SLICE)
            adjustments, unpriced = await adjustments_of(tx, found)
            inserted = set() if dry_run else (await insert_receipts(tx, adjustments)).charged
        unknown.update(unpriced)
        new = [each for each in adjustments if dry_run or each.id in inserted]
        adjusted += len(new)
        cost += sum((each.cost_usd for each in new), Decimal(0))
        if len(found) < _SLICE:
            return RepricingResult(adjusted, cost, tuple(sorted(unknown)))
        after = found[-1].id


async def _completions(
    _tx: Transaction, receipts: Sequence[Receipt], *, prices: PriceList
) -> tuple[list[NewReceipt], list[str]]:
    charges = [(receipt, prices.charge(receipt.billed, at=receipt.used_at)) for receipt in receipts]
    unpriced = [part for _, charge in charges for part in charge.unpriced]
    priced = [(receipt, charge) for receipt, charge in charges if not charge.unpriced]
    return [receipt.adjustment(charge, source_system=REPRICING) for receipt, charge in priced], unpriced


async def _corrections(
    tx: Transaction, receipts: Sequence[Receipt], *, prices: PriceList
) -> tuple[list[NewReceipt], list[str]]:
    earlier = await find_adjustments(tx, receipts)
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
