"""Receipts of every kind, as the database returns them."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any

from app.auth.records import KeyRecord
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt, Receipt
from app.ids import AccountId, ApiKeyId, new_uuid
from app.requests.principal import KeyTerms
from app.usage.provider import clean_usage, token_usage
from tests.factories import a_fact

USED_AT, STORED_AT = datetime(2026, 10, 31, 23, 59, 59, 500_000, UTC), datetime(2026, 11, 1, 0, 0, 1, 0, UTC)
KEY = KeyRecord(
    *(ApiKeyId(new_uuid()), AccountId(new_uuid()), "acme", "production", "rt_1", (), KeyTerms()),
    *(STORED_AT, None, None, False, False),
)
EVERY_KIND: Mapping[str, Any] = {
    "input_tokens": 1013,
    "output_tokens": 207,
    "cache_read_input_tokens": 5003,
    "cache_creation_input_tokens": 601,
    "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 201},
    "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 2},
}
BATCH: Mapping[str, Any] = {**EVERY_KIND, "service_tier": "batch", "inference_geo": "us"}
MARKUPS = {"list price": Decimal(1), "with a markup": Decimal("1.237"), "half price": Decimal("0.5")}

_numbers = count()


def charged(
    usage: Mapping[str, Any],
    *,
    prices: PriceList | None = None,
    model: str = "claude-sonnet-4-6",
    **labels: Any,
) -> Receipt:
    """The receipt of a message with this usage object."""
    reported = clean_usage(dict(usage))
    fact = a_fact(
        KEY, f"msg_{next(_numbers)}", at=USED_AT, model=model, usage=token_usage(reported), reported=reported
    )
    charge = (prices or PriceList()).charge(BilledUsage.of(fact), at=USED_AT)
    new = NewReceipt.of(fact, charge, "unpriced" if charge.unpriced else "final")
    return stored(new, **labels)


def corrected(receipt: Receipt, prices: PriceList) -> Receipt:
    """The adjustment that other prices make."""
    return stored(receipt.adjustment(prices.charge(receipt.billed, at=USED_AT), source_system="test"))


def stored(receipt: NewReceipt, **labels: Any) -> Receipt:
    """A receipt as it is read again."""
    values = {each.name: getattr(receipt, each.name) for each in fields(NewReceipt)}
    return Receipt(**{**values, **labels}, created_at=STORED_AT)
