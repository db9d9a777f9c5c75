"""Messages that were charged although they cost nothing: they were taken for lost too early."""

from collections.abc import Collection
from decimal import Decimal

import structlog

from app.billing.prices.price_list import Charge
from app.billing.receipts.repository import find_adjustments, find_by_source, insert_receipts
from app.platform.db import Transaction

log = structlog.get_logger(__name__)

VOID = "runtally_void"
"""The source system of the adjustments."""


async def return_charges(tx: Transaction, keys: Collection[str]) -> None:
    """Take back, by adjustments, what these messages were charged; `keys` are those of their facts."""
    receipts = await find_by_source(tx, keys)
    if not receipts:
        return
    adjustments = await find_adjustments(tx, receipts)
    returned = [
        receipt.adjustment(
            Charge(Decimal(0), 0, receipt.price_version),
            source_system=VOID,
            earlier=adjustments[receipt.message],
        )
        for receipt in receipts
        if not any(each.source_system == VOID for each in adjustments[receipt.message])
    ]
    for receipt in returned:
        log.error("receipt.void", source_reference=receipt.source_reference)
    await insert_receipts(tx, returned)
