"""Completes receipts of which a part had no price, by inserting adjustments; receipts are never edited."""

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from app.billing.prices.price_list import PriceList
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import find_unadjusted, insert_receipts
from app.platform.db import Database

REPRICING = "runtally_reprice"
"""The source system of adjustments. It is part of the unique key, so a message is adjusted at most once."""

_SLICE = 500


@dataclass(frozen=True, slots=True)
class RepricingResult:
    """The result of `reprice`."""

    adjusted: int
    cost_usd: Decimal
    still_unpriced: tuple[str, ...]
    """What still has no price, as `name=value`."""


async def reprice(database: Database, prices: PriceList) -> RepricingResult:
    """Insert an adjustment for every unpriced receipt whose price is complete now.

    Each slice is a transaction. Another process that does the same at this time inserts the
    other adjustments.
    """
    adjusted, cost, unknown = 0, Decimal(0), set[str]()
    after: UUID | None = None
    while True:
        async with database.transaction() as tx:
            found = await find_unadjusted(tx, adjusted_by=REPRICING, after=after, limit=_SLICE)
            adjustments: list[NewReceipt] = []
            for receipt in found:
                charge = prices.charge(receipt.billed, at=receipt.used_at)
                if charge.unpriced:
                    unknown.update(charge.unpriced)
                else:
                    adjustments.append(receipt.adjustment(charge, source_system=REPRICING))
            inserted = await insert_receipts(tx, adjustments)
        new = [each for each in adjustments if each.id in inserted.charged]
        adjusted += len(new)
        cost += sum((each.cost_usd for each in new), Decimal(0))
        if len(found) < _SLICE:
            return RepricingResult(adjusted, cost, tuple(sorted(unknown)))
        after = found[-1].id
