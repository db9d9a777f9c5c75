"""Charges of so many credits, as messages of a moment."""

from datetime import UTC, datetime

from app.auth.records import KeyRecord
from app.billing.prices.price_list import Charge, PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.platform.db import Database
from tests.factories import a_fact


async def charge(database: Database, key: KeyRecord, message: str, credits_: int, *, at: datetime) -> None:
    """Charge a message that began at a moment."""
    fact = a_fact(key, message, at=at)
    priced = PriceList().charge(BilledUsage.of(fact), at=datetime.now(UTC))
    charged = Charge(priced.cost_usd, credits_, priced.price_version)
    async with database.transaction() as tx:
        await insert_receipts(tx, [NewReceipt.of(fact, charged, "final")])
