from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import calc_price
from genai_prices.types import Usage
from hypothesis import given
from hypothesis import strategies as st

from app.billing.prices.library import LIBRARY_VERSION
from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_list import PriceList, UnknownPrice
from app.billing.prices.quote import BilledUsage
from app.usage.records import TokenUsage

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SONNET = "claude-sonnet-4-6"
TIERED = "claude-haiku-5-5"
MODELS = (SONNET, "claude-opus-5-5", "claude-sonnet-5-5", TIERED, "claude-3-haiku-20240307")
PRICES = PriceList()
tokens = st.integers(0, 150_000)
usages = st.builds(TokenUsage, *[tokens] * 5)


def cost_of(model: str, usage: TokenUsage) -> Decimal:
    quoted = PRICES.quote(BilledUsage(model, usage), at=NOW)
    assert quoted.unpriced == ()
    return quoted.cost_usd


def test_the_tier_of_a_long_prompt_begins_above_its_limit() -> None:
    assert cost_of(TIERED, TokenUsage(input_tokens=100_000)) == Decimal("0.01")
    assert cost_of(TIERED, TokenUsage(input_tokens=100_001)) == Decimal("0.0500005")
    assert cost_of(TIERED, TokenUsage(1, 1000, cache_read_tokens=100_000)) == Decimal("0.0075005")


@given(st.sampled_from(MODELS), usages)
def test_the_library_itself_agrees(model: str, usage: TokenUsage) -> None:
    theirs = calc_price(
        Usage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
        ),
        model,
        provider_id="anthropic",
        genai_request_timestamp=NOW,
    )

    assert cost_of(model, usage) == theirs.total_price


def test_a_model_without_a_price_is_an_error() -> None:
    assert not PRICES.is_priced("claude-unheard-of-9", at=NOW)
    with pytest.raises(UnknownPrice):
        PRICES.price_of("claude-unheard-of-9", at=NOW)


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
    assert PriceList(markup=Decimal(markup)).credits_for(Decimal(cost)) == credits_charged


@given(usages, st.decimals(0, 10, places=3))
def test_credits_never_fall_short_of_the_cost(usage: TokenUsage, markup: Decimal) -> None:
    charge = PriceList(markup=markup).charge(BilledUsage(SONNET, usage), at=NOW)

    short = charge.charged_credits - cost_of(SONNET, usage) * markup * 10_000_000

    assert 0 <= short < 1
    assert charge.cost_usd == cost_of(SONNET, usage)
    assert charge.price_version == LIBRARY_VERSION


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        (SONNET, TokenUsage(1000, 1000), "0"),
        (SONNET, TokenUsage(1000, cache_read_tokens=1000), "0.0027"),
        (TIERED, TokenUsage(1000, cache_read_tokens=200_000), "0.09"),
        (SONNET, TokenUsage(cache_write_5m_tokens=1000, cache_write_1h_tokens=1000), "0"),
    ],
)
def test_cache_savings_are_the_difference_to_plain_input(model: str, usage: TokenUsage, dollars: str) -> None:
    charge = PRICES.charge(BilledUsage(model, usage), at=NOW)

    assert charge.cache_savings_usd == Decimal(dollars)
    plain = TokenUsage(usage.input_tokens + usage.cache_read_tokens, usage.output_tokens)
    if not (usage.cache_write_5m_tokens or usage.cache_write_1h_tokens):
        assert cost_of(model, plain) - charge.cost_usd == charge.cache_savings_usd


def test_an_operators_price_counts_from_its_date_on() -> None:
    def own(dollars: str, day: int) -> OperatorPrice:
        rate = Rate(Decimal(dollars))
        price = ModelPrice("file", rate, rate, rate, rate, rate)
        return OperatorPrice(SONNET, datetime(2026, 11, day, tzinfo=UTC), price)

    prices = PriceList([own("1", 10), own("2", 20)])

    def cost(day: int) -> Decimal:
        million = BilledUsage(SONNET, TokenUsage(1_000_000))
        return prices.quote(million, at=datetime(2026, 11, day, tzinfo=UTC)).cost_usd

    assert [cost(9), cost(10), cost(19), cost(20)] == [Decimal(n) for n in (3, 1, 1, 2)]
