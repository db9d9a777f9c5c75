"""Charges receipts that had no price, by inserting adjustments; receipts are never edited."""

from dataclasses import dataclass
from decimal import Decimal

from app.billing.prices.price_list import PriceList, UnknownPrice
from app.billing.receipts.repository import find_unadjusted, insert_receipts
from app.db import Database

REPRICING = "runtally_reprice"
"""The source system of adjustments. It is part of the unique key, so a message is adjusted at most once."""

_BATCH = 500


@dataclass(frozen=True, slots=True)
class RepricingResult:
    """The result of `reprice`."""

    adjusted: int
    cost_usd: Decimal
    still_unpriced: tuple[str, ...]
    """Models that still have no price."""


async def reprice(database: Database, prices: PriceList) -> RepricingResult:
    """Insert an adjustment for every unpriced receipt whose model has a price now."""
    adjusted, cost, unknown = 0, Decimal(0), set()
    async with database.transaction() as tx:
        adjustments = []
        for receipt in await find_unadjusted(tx, adjusted_by=REPRICING):
            try:
                charge = prices.charge(receipt.model, receipt.usage, at=receipt.created_at)
            except UnknownPrice:
                unknown.add(receipt.model)
                continue
            adjustments.append(receipt.adjustment(charge, source_system=REPRICING))
            cost += charge.cost_usd
        for start in range(0, len(adjustments), _BATCH):
            adjusted += await insert_receipts(tx, adjustments[start : start + _BATCH])
    return RepricingResult(adjusted, cost, tuple(sorted(unknown)))
