from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.billing.pricing import UnknownPrice, charge, cost_of, is_priced
from app.usage import TokenUsage

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SONNET = "claude-sonnet-4-5"
tokens = st.integers(0, 30_000)
usages = st.builds(TokenUsage, *[tokens] * 5)


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        (SONNET, TokenUsage(input_tokens=1000), "0.003"),
        (SONNET, TokenUsage(output_tokens=1000), "0.015"),
        (SONNET, TokenUsage(cache_read_tokens=1000), "0.0003"),
        (SONNET, TokenUsage(cache_write_5m_tokens=1000), "0.00375"),
        (SONNET, TokenUsage(cache_write_1h_tokens=1000), "0.006"),
        (SONNET, TokenUsage(1, 1, 1, 1, 1), "0.00002805"),
        (SONNET, TokenUsage(input_tokens=200_001), "1.200006"),
        (SONNET, TokenUsage(web_search_requests=3), "0.03"),
        ("claude-opus-4-5", TokenUsage(1000, 1000), "0.03"),
        ("claude-haiku-4-5", TokenUsage(1000, 1000), "0.006"),
        ("claude-sonnet-4-5-20250929", TokenUsage(1000), "0.003"),
        ("anthropic/claude-sonnet-4-5", TokenUsage(1000), "0.003"),
        (SONNET, TokenUsage(), "0"),
    ],
)
def test_the_published_prices(model: str, usage: TokenUsage, dollars: str) -> None:
    assert cost_of(model, usage, at=NOW) == Decimal(dollars)


def test_a_model_without_a_price_is_an_error() -> None:
    assert not is_priced("claude-unheard-of-9")
    with pytest.raises(UnknownPrice):
        cost_of("claude-unheard-of-9", TokenUsage(1), at=NOW)


@pytest.mark.parametrize(
    ("cost", "markup", "credits_charged"),
    [
        ("0", "1", 0),
        ("0.0000001", "1", 1),
        ("0.00000001", "1", 1),
        ("0.00000011", "1", 2),
        ("0.00865", "1", 86_500),
        ("0.00865", "1.1", 95_150),
        ("1", "0", 0),
    ],
)
def test_credits_are_rounded_up_once(cost: str, markup: str, credits_charged: int) -> None:
    assert charge(Decimal(cost), markup=Decimal(markup)).charged_credits == credits_charged


@given(usages, usages)
def test_prices_add_up_below_the_long_context_tier(one: TokenUsage, two: TokenUsage) -> None:
    fields = TokenUsage.__dataclass_fields__
    both = TokenUsage(*(getattr(one, name) + getattr(two, name) for name in fields))

    if both.prompt_tokens <= 200_000:
        total = cost_of(SONNET, one, at=NOW) + cost_of(SONNET, two, at=NOW)
        assert cost_of(SONNET, both, at=NOW) == total


@given(usages, st.decimals(0, 10, places=3))
def test_credits_never_fall_short_of_the_cost(usage: TokenUsage, markup: Decimal) -> None:
    cost = cost_of(SONNET, usage, at=NOW)

    short = charge(cost, markup=markup).charged_credits - cost * markup * 10_000_000

    assert 0 <= short < 1
    assert charge(cost, markup=markup).cost_usd == cost
