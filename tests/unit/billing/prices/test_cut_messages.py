"""The price of what a cut message had used when it ended."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.usage.records import TokenUsage

AT = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reported", "searches", "dollars"),
    [
        ({}, 0, "0"),
        ({}, 2, "0.02"),
        ({"server_tool_use": None}, 2, "0.02"),
        ({"server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0}}, 2, "0.02"),
        ({"server_tool_use": {"web_search_requests": 3}}, 2, "0.03"),
        ({"server_tool_use": {"web_fetch_requests": 1}}, 1, "0.01"),
    ],
)
def test_searches_that_were_not_reported_are_charged(
    reported: dict[str, Any], searches: int, dollars: str
) -> None:
    usage = TokenUsage(web_search_requests=searches)

    charge = PriceList().charge(BilledUsage("claude-sonnet-4-6", usage, reported), at=AT)

    assert (charge.cost_usd, charge.unpriced) == (Decimal(dollars), ())
