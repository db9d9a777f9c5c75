"""Dimensions of a price; tests/integration/test_dollars.py has every combination of them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.billing.prices.model_price import DatedFactors, Factors
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage, Quote
from app.usage.provider import clean_usage, token_usage
from app.usage.records import TokenUsage
from tests.unit.billing.prices.public_prices import PUBLIC_PRICES

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PRICES = PriceList()
SONNET, OPUS, ADVISOR = "claude-sonnet-4-6", "claude-opus-4-8", "claude-opus-5-5"
PLAIN = {"input_tokens": 1000, "output_tokens": 1000}
SEARCHES = "web_search_requests"


def quoted(reported: Mapping[str, Any], *, model: str = SONNET, **fields: Any) -> Quote:
    usage = clean_usage(dict(reported))
    quote = PRICES.quote(BilledUsage(model, token_usage(usage), usage, **fields), at=NOW)
    assert sum((line.amount_usd for line in quote.lines), Decimal(0)) == quote.cost_usd
    assert all(line.quantity * line.unit_price_usd == line.amount_usd for line in quote.lines)
    return quote


def complete(reported: Mapping[str, Any], *, model: str = SONNET, **fields: Any) -> Decimal:
    quote = quoted(reported, model=model, **fields)
    assert quote.unpriced == ()
    return quote.cost_usd


@pytest.mark.parametrize(
    "extra",
    [
        {"inference_geo": "not_available"},
        {"server_tool_use": {"web_fetch_requests": 7}},
        {"iterations": [{"type": "message", **PLAIN}]},
        {"output_tokens_details": {"thinking_tokens": 400}},
        {"fallback_credit": {"status": {"type": "not_applied", "reason": "x"}}},
    ],
)
def test_what_is_known_to_cost_nothing_changes_no_price(extra: dict[str, Any]) -> None:
    assert complete({**PLAIN, **extra}, model="claude-haiku-4-5") == Decimal("0.006")


@pytest.mark.parametrize(
    ("extra", "part", "dollars"),
    [
        ({"new_counter": 12}, "new_counter=12", "0.0180"),
        ({"new_kind": "x"}, 'new_kind="x"', "0.0180"),
        ({"service_tier": "flex"}, "service_tier=flex", "0"),
        ({"service_tier": "priority"}, "service_tier=priority", "0"),
        ({"inference_geo": "eu"}, "inference_geo=eu", "0"),
        ({"speed": "turbo"}, "speed=turbo", "0"),
        ({"speed": "fast"}, "speed=fast", "0"),
        ({"server_tool_use": {"code_execution_requests": 2}}, "code_execution_requests=2", "0.0180"),
        ({"server_tool_use": {SEARCHES: "many"}}, f'server_tool_use.{SEARCHES}="many"', "0.0180"),
        ({"server_tool_use": 4}, "server_tool_use=4", "0.0180"),
        ({"server_tool_use": {SEARCHES: 1}, SEARCHES: 2}, f"{SEARCHES}=2", "0.0280"),
        ({"cache_creation": {"ephemeral_24h_tokens": 5}}, "cache_creation.ephemeral_24h_tokens=5", "0.0180"),
        ({"iterations": [{"type": "dream", "input_tokens": 5}]}, 'iterations.type="dream"', "0.0180"),
        ({"iterations": [{"type": "compaction", "input_tokens": 1, "x": 2}]}, "iterations.x=2", "0.018003"),
        ({"iterations": [{"type": "advisor_message", "model": "m", "input_tokens": 1}]}, "model=m", "0.0180"),
        ({"iterations": ["x"]}, "iterations=not objects", "0.0180"),
        ({"cache_read_input_tokens": -5}, "cache_read_input_tokens=-5", "0.0180"),
        ({"fallback_credit": {"status": {"type": "redeemed"}}}, 'fallback_credit="redeemed"', "0.0180"),
        ({"padding": "x" * 70_000}, "oversized=true", "0.0180"),
        ({"padding": "x" * 70_000, "service_tier": "batch"}, "oversized=true", "0.0090"),
        ({"padding": "x" * 70_000, "cache_creation": {"x" * 2_000: 0}}, "oversized=true", "0.0180"),
        (
            {
                "cache_creation_input_tokens": 100,
                "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 70},
            },
            "cache_creation=130 of 100 tokens",
            "0.0185325",
        ),
        (
            {"iterations": [{"type": "message", "input_tokens": 500, "output_tokens": 501}] * 2},
            "iterations=2 do not add up to the counts of the message",
            "0.0180",
        ),
    ],
)
def test_what_nobody_knows_is_never_priced_as_if_it_did_not_matter(
    extra: dict[str, Any], part: str, dollars: str
) -> None:
    quote = quoted({**PLAIN, **extra})

    assert quote.unpriced == (part,)
    assert quote.cost_usd == Decimal(dollars)


def test_an_operator_may_price_a_counter_that_nobody_knows() -> None:
    factors = Factors(server_tools={"new_counter": Decimal("0.002"), "code_execution_requests": Decimal(0)})
    prices = PriceList(operator_factors=[DatedFactors(frozenset(), NOW, factors, "file 1")])
    usage = {**PLAIN, "new_counter": 12, "server_tool_use": {"code_execution_requests": 5}}

    quote = prices.quote(BilledUsage(SONNET, token_usage(usage), usage), at=NOW)

    assert (quote.unpriced, quote.cost_usd) == ((), Decimal("0.042"))


@pytest.mark.parametrize("nothing", [None, 0, "", False, [], {}])
def test_an_unknown_key_without_a_value_changes_nothing(nothing: Any) -> None:
    assert complete({**PLAIN, "new_counter": nothing, "inference_geo": None}) == Decimal("0.0180")


@pytest.mark.parametrize("count", ["1000", 1000.0])
def test_an_unambiguous_count_counts(count: Any) -> None:
    assert complete({"input_tokens": count, "output_tokens": 1000}) == Decimal("0.0180")


@pytest.mark.parametrize(
    "model",
    [
        *("claude-sonnet-4-5-nonsense", "claude-sonnet-4-50", "claude-sonnet-4-6-fast", "claude-sonnet-4-"),
        *(
            "claude-opus-4-6-thinking",
            "claude-sonnet-4-2025",
            "xclaude-sonnet-4-6",
            "claude-sonnet-4-6-2026010",
        ),
    ],
)
def test_a_name_that_only_looks_like_a_model_has_no_price(model: str) -> None:
    quote = quoted({**PLAIN, "server_tool_use": {"web_search_requests": 1}}, model=model)

    assert quote.unpriced == (f"model={model}", "web_search_requests=1")
    assert quote.cost_usd == 0
    assert quote.lines == ()


@pytest.mark.parametrize(
    "model",
    [
        *("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5@20250929"),
        *(
            "claude-sonnet-4-5-latest",
            "anthropic/claude-sonnet-4-5",
            "claude-sonnet-4-5[1m]",
            "claude-sonnet-4.5",
        ),
    ],
)
def test_the_names_of_one_model_have_one_price(model: str) -> None:
    assert complete(PLAIN, model=model) == Decimal("0.0180")


def test_a_refusal_before_any_output_is_free() -> None:
    refused = {"input_tokens": 100_000, "output_tokens": 0, "cache_creation_input_tokens": 5}

    assert complete(refused, stop_reason="refusal") == 0
    assert complete({**refused, "output_tokens": 1}, stop_reason="refusal") > Decimal("0.3")
    assert complete(refused, stop_reason="end_turn") > Decimal("0.3")


def test_a_fallback_is_priced_hop_by_hop() -> None:
    declined = {"type": "message", "model": SONNET, "input_tokens": 1000, "output_tokens": 10}
    served = {"type": "fallback_message", "model": OPUS, "input_tokens": 1000, "output_tokens": 1000}

    # The top-level counts are those of the serving model, or of all hops.
    alone = complete({**PLAIN, "iterations": [declined, served]}, model=OPUS)
    both = complete(
        {"input_tokens": 2000, "output_tokens": 1010, "iterations": [declined, served]}, model=OPUS
    )
    refused = complete({**PLAIN, "iterations": [{**declined, "output_tokens": 0}, served]}, model=OPUS)

    assert refused == Decimal("0.030")
    assert alone == both == Decimal("0.030") + Decimal("0.00315")


def test_the_tier_of_a_long_prompt_is_that_of_each_request() -> None:
    half = {"type": "message", "input_tokens": 60_000, "output_tokens": 100}
    reported = {"input_tokens": 120_000, "output_tokens": 200}

    whole = complete(reported, model="claude-haiku-5-5")
    split = complete({**reported, "iterations": [half, half]}, model="claude-haiku-5-5")

    assert (whole, split) == (Decimal("0.0605"), Decimal("0.0121"))


@pytest.mark.parametrize("model", PUBLIC_PRICES)
def test_another_public_list_agrees(model: str) -> None:
    public = PUBLIC_PRICES[model]
    price = PRICES.price_of(model, at=NOW)

    for kind in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h"):
        if (theirs := getattr(public, kind)) is not None:
            assert price.rate(kind).base == Decimal(theirs), kind
    assert price.factor("inference_geo", "us") == (public.us and Decimal(public.us))
    assert price.factor("speed", "fast") == (public.fast and Decimal(public.fast))
    assert price.factor("service_tier", "batch") == Decimal("0.5")


@pytest.mark.parametrize(
    ("written", "plain", "missed", "dollars"),
    [
        # Sonnet: $3 a million for input, $0.30 read, $3.75 and $6 written.
        ({"ephemeral_5m_input_tokens": 10_000}, 0, 8_000, "0.0276"),
        ({"ephemeral_1h_input_tokens": 10_000}, 0, 8_000, "0.0456"),
        ({}, 10_000, 8_000, "0.0216"),
        ({"ephemeral_5m_input_tokens": 6_000}, 4_000, 8_000, "0.0261"),
        ({"ephemeral_5m_input_tokens": 6_000}, 4_000, 0, "0"),
        ({"ephemeral_5m_input_tokens": 10}, 10, 8_000, "0.0000615"),
    ],
)
def test_a_miss_costs_what_reading_from_the_cache_would_have_saved(
    written: dict[str, int], plain: int, missed: int, dollars: str
) -> None:
    reported = {
        "input_tokens": plain,
        "output_tokens": 7,
        "cache_creation_input_tokens": sum(written.values()),
        "cache_creation": written,
    }
    assert quoted(reported, missed_tokens=missed).cache_miss_usd == Decimal(dollars)
    everywhere = quoted({**reported, "inference_geo": "us"}, missed_tokens=missed)
    assert everywhere.cache_miss_usd == Decimal(dollars) * Decimal("1.1")
    assert everywhere.cost_usd == quoted({**reported, "inference_geo": "us"}).cost_usd


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
def test_searches_of_a_cut_message_that_were_not_reported_are_charged(
    reported: dict[str, Any], searches: int, dollars: str
) -> None:
    usage = TokenUsage(web_search_requests=searches)

    charge = PRICES.charge(BilledUsage(SONNET, usage, reported), at=NOW)

    assert (charge.cost_usd, charge.unpriced) == (Decimal(dollars), ())


def test_the_documented_receipt_is_what_the_program_computes() -> None:
    section = Path("docs/BILLING.md").read_text().split("### One receipt, added by hand")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if "|" in line]
    reported = json.loads(section.split("`")[3].replace("\n", " "))
    quote = quoted(reported, model=section.split("`")[1])

    lines = [line.to_json() for line in quote.lines]
    names = ("part", "kind", "quantity", "unit_price_usd", "amount_usd")
    assert [[line[name] for name in names] for line in lines] == rows[2:]
    assert f"`costUsd` {quote.cost_usd:.10f}" in section
    assert f"{PRICES.credits_for(quote.cost_usd):,} credits" in section
