"""What a message may cost at most."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.usage.records import TokenUsage

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ODD = ModelPrice(
    version="file",
    input=Rate(Decimal(3), ((1_000, Decimal(2)), (2_000, Decimal(6)))),
    output=Rate(Decimal(15), ((1_000, Decimal(10)),)),
    cache_read=Rate(Decimal(4)),
    cache_write_5m=Rate(Decimal("3.75")),
    cache_write_1h=Rate(Decimal("3.5"), ((1_000, Decimal(1)),)),
)
"""Reads cost more than plain input, 1-hour writes less than others, and long prompts less than short ones."""

OWN = [OperatorPrice("claude-odd-1", datetime(2026, 1, 1, tzinfo=UTC), ODD)]
PRICES = PriceList(OWN)
counts = st.integers(0, 3_000)


@pytest.mark.parametrize(
    "model", ["claude-odd-1", "claude-sonnet-4-6", "claude-opus-4-8", "claude-haiku-5-5"]
)
@given(plain=counts, read=counts, short=counts, long=counts, output=counts, searches=st.integers(0, 3))
def test_no_message_costs_more_whatever_becomes_of_its_prompt(
    model: str, *, plain: int, read: int, short: int, long: int, output: int, searches: int
) -> None:
    for kind, prompt in (
        ("cache_write_1h_tokens", TokenUsage(plain, output, read, short, long)),
        ("cache_write_5m_tokens", TokenUsage(plain, output, read, short)),
        ("input_tokens", TokenUsage(plain, output, read)),
    ):
        bound = TokenUsage(**{kind: prompt.prompt_tokens}, output_tokens=output, web_search_requests=searches)
        for geo, tier in (("us", "standard"), ("global", "batch"), (None, None)):
            reported = {"inference_geo": geo, "service_tier": tier}
            used = BilledUsage(
                model, prompt, {**reported, "server_tool_use": {"web_search_requests": searches}}
            )
            quoted = PRICES.quote(used, at=NOW)
            if not quoted.unpriced:
                assert quoted.cost_usd <= PRICES.most(model, bound, at=NOW)


def test_what_was_read_from_the_cache_is_not_counted_as_if_it_had_been_written() -> None:
    read = TokenUsage(cache_read_tokens=1_000)

    assert PRICES.most("claude-sonnet-4-6", read, at=NOW) == Decimal("0.0003") * Decimal("1.1")


def test_the_release_that_answers_may_cost_more_than_the_alias() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    dear = replace(ODD, input=Rate(Decimal(90)), cache_read=Rate(Decimal(0)))
    prices = PriceList([OperatorPrice("claude-odd-1-20260102", since, dear), *OWN])
    used = TokenUsage(input_tokens=1_000)
    answered = BilledUsage("claude-odd-1-20260102", used, requested_model="claude-odd-1")

    assert prices.quote(answered, at=NOW).cost_usd == Decimal("0.09")
    assert prices.most("claude-odd-1", used, at=NOW) == Decimal("0.09")
