"""Prices for messages that had none: further rows, because receipts are never edited."""

from dataclasses import dataclass, replace
from decimal import Decimal

from app.billing.pricing import PriceList, UnknownPrice
from app.billing.repository import NewReceipt, insert_receipts, unpriced_receipts
from app.db import Database
from app.usage import TokenUsage

REPRICING = "runtally_reprice"
"""The source system of adjustments: with it, a message is adjusted at most once."""

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Repriced:
    """What a repricing has done."""

    adjusted: int
    cost_usd: Decimal
    still_unpriced: tuple[str, ...]
    """Models without a price even now."""


async def reprice(database: Database, prices: PriceList) -> Repriced:
    """Add an adjustment for every unpriced receipt whose model has a price by now."""
    adjusted, cost, unknown = 0, Decimal(0), set()
    async with database.transaction() as tx:
        found = []
        for fact in await unpriced_receipts(tx, adjusted_by=REPRICING):
            try:
                charge = prices.charge(fact.model, fact.usage, at=fact.at)
            except UnknownPrice:
                unknown.add(fact.model)
                continue
            tokens_counted_before = replace(fact, usage=TokenUsage())
            found.append(NewReceipt(tokens_counted_before, charge, "adjustment", REPRICING))
            cost += charge.cost_usd
        for start in range(0, len(found), _BATCH):
            adjusted += await insert_receipts(tx, found[start : start + _BATCH])
    return Repriced(adjusted, cost, tuple(sorted(unknown)))
