"""Receipts compared with the reports of the provider: each planted difference is located and named."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import pytest_asyncio

from app.billing.prices.model_price import OperatorPrice, Rate
from app.billing.prices.price_list import PriceList
from app.billing.reconciliation.records import KINDS, MINUTE, Difference
from app.billing.reconciliation.repository import find_price_differences
from app.platform.db import Database
from tests.factories import an_account
from tests.integration.bookkeeping import CHEAP, OTHER_KEY, SONNET, USAGE, Bookkeeping, bookkeeping
from tests.integration.statements import execute
from tests.provider.admin_reports import key_id

DAY = datetime(2026, 11, 20, tzinfo=UTC)
NOON = DAY + timedelta(hours=12)
COST = Decimal("0.0075")
"""1,000 in, 200 out, 5,000 read from the cache."""


@pytest_asyncio.fixture
async def books(database: Database) -> AsyncIterator[Bookkeeping]:
    async with bookkeeping(database, await an_account(database)) as kept:
        yield kept


def counts(difference: Difference) -> dict[str, int]:
    return {kind: count for kind, count in zip(KINDS, difference.counts, strict=True) if count}


async def test_equal_books_have_no_difference(books: Bookkeeping) -> None:
    for minutes in (0, 0, 3, 700):
        await books.both(DAY + timedelta(minutes=minutes))

    result = await books.compared(DAY)

    assert not result.differences
    assert not result.prices
    assert sum(hour.reported_usd for hour in result.hours) == 4 * COST
    assert all(hour.reported_usd == hour.recorded_usd == hour.listed_usd for hour in result.hours)


async def test_a_lost_message_is_located(books: Bookkeeping) -> None:
    await books.both(NOON)
    books.answered(NOON + timedelta(minutes=7, seconds=30))
    await books.count_calls(NOON, 1)
    await books.count_calls(NOON + timedelta(minutes=7), 1)

    (found,) = await books.unexplained(DAY)

    assert (found.starting_at, found.ending_at) == (NOON + 7 * MINUTE, NOON + 8 * MINUTE)
    assert (found.cause, found.dimensions.model, found.amount_usd) == ("lost_receipt", SONNET, COST)
    assert counts(found) == {"input": 1000, "output": 200, "cache_read": 5000}
    assert found.evidence == {"receipts": 1, "requests": 2, "calls": 2}


async def test_a_call_with_our_key_beside_the_gateway_is_no_lost_message(books: Bookkeeping) -> None:
    await books.both(NOON)
    books.answered(NOON)
    await books.count_calls(NOON, 1)

    (found,) = await books.unexplained(DAY)

    assert (found.starting_at, found.cause, found.amount_usd) == (NOON, "unknown_caller", COST)


async def test_a_doubled_receipt_is_named(books: Bookkeeping) -> None:
    await books.both(NOON)
    await books.charged(NOON + timedelta(seconds=5))

    (found,) = await books.unexplained(DAY)

    assert (found.starting_at, found.cause, found.amount_usd) == (NOON, "doubled_receipt", -COST)
    assert counts(found) == {"input": -1000, "output": -200, "cache_read": -5000}
    assert [each["source_reference"] for each in found.evidence["equal_receipts"]] == [
        "run-1/0/msg_1",
        "run-1/0/msg_2",
    ]
    assert found.account_id == books.key.account_id


async def test_another_programs_call_is_shown_and_explained(books: Bookkeeping) -> None:
    await books.both(NOON)
    books.answered(NOON, api_key=OTHER_KEY)

    (found,) = (await books.compared(DAY)).differences

    assert (found.cause, found.api_key_id, found.amount_usd) == ("foreign_key", key_id(OTHER_KEY), COST)
    assert found.is_explained


async def test_a_wrong_price_is_located_by_the_providers_costs(database: Database) -> None:
    prices = PriceList([OperatorPrice(SONNET, DAY, CHEAP)])
    async with bookkeeping(database, await an_account(database), prices=prices) as books:
        await books.both(NOON)
        result = await books.compared(DAY)

    (found,) = result.prices
    assert (found.starting_at, found.kind, found.tokens) == (NOON, "input", 1000)
    assert found.provider_unit_usd * 1_000_000 == 3
    assert found.own_unit_usd == Decimal("0.0000015")
    assert (found.amount_usd, found.price_version) == (Decimal("0.0015"), "file 1")
    assert list(result.differences) == []


async def test_a_price_that_changes_within_an_hour_is_the_providers_before_or_after(
    database: Database,
) -> None:
    changed = NOON + timedelta(minutes=30)
    listed = replace(CHEAP, input=Rate(Decimal(3)))
    prices = PriceList([OperatorPrice(SONNET, DAY, CHEAP), OperatorPrice(SONNET, changed, listed)])
    async with bookkeeping(database, await an_account(database), prices=prices) as books:
        await books.both(changed + MINUTE)
        result = await books.compared(DAY)

    assert list(result.prices) == []


async def test_a_wrong_price_remains_while_the_providers_costs_cannot_be_read(database: Database) -> None:
    prices = PriceList([OperatorPrice(SONNET, DAY, CHEAP)])
    async with bookkeeping(database, await an_account(database), prices=prices) as books:
        await books.both(NOON)
        await books.compared(DAY)
        books.simulator.reports.not_offered = frozenset({"analytics/usage", "analytics/cost", "cost_report"})
        result = await books.compared(DAY)
        async with database.snapshot() as reader:
            known = await find_price_differences(reader, result.window)

    assert (result.prices_audited, len(known)) == (False, 1)


async def test_a_receipt_charged_at_another_price_than_todays_is_found(books: Bookkeeping) -> None:
    dear = replace(CHEAP, version="old", input=Rate(Decimal(6)))
    books.answered(NOON)
    await books.charged(NOON, prices=PriceList([OperatorPrice(SONNET, DAY, dear)]))

    (found,) = await books.unexplained(DAY)

    assert (found.starting_at, found.cause) == (NOON, "charged_price")
    assert (found.amount_usd, found.account_id) == (Decimal("-0.003"), books.key.account_id)


async def test_neighbouring_minutes_explain_each_other(books: Bookkeeping) -> None:
    for second in (55, 58, 59):
        await books.charged(NOON + timedelta(seconds=second))
        books.answered(NOON + timedelta(seconds=second + 4))
    await books.both(NOON + timedelta(seconds=30))

    result = await books.compared(DAY)

    (found,) = result.differences
    assert (found.cause, found.starting_at) == ("shifted", NOON)
    assert [hour.unexplained for hour in result.hours] == [0]


async def test_a_shift_over_an_hours_border_is_no_difference_in_dollars(books: Bookkeeping) -> None:
    await books.charged(NOON - timedelta(seconds=1))
    books.answered(NOON + timedelta(seconds=1))

    result = await books.compared(DAY)

    assert [(hour.reported_usd - hour.recorded_usd, hour.unexplained_usd) for hour in result.hours] == [
        (-COST, Decimal(0)),
        (COST, Decimal(0)),
    ]


@pytest.mark.parametrize(
    ("usage", "factor"),
    [
        ({"inference_geo": "us"}, Decimal("1.1")),
        ({"service_tier": "batch"}, Decimal("0.5")),
        ({"cache_creation_input_tokens": 0}, Decimal(1)),
    ],
)
async def test_dimensions_are_compared_apart(
    books: Bookkeeping, usage: dict[str, object], factor: Decimal
) -> None:
    await books.both(NOON, {**USAGE, **usage})
    await books.both(NOON)
    books.answered(NOON + timedelta(hours=1), {**USAGE, **usage})

    (found,) = await books.unexplained(DAY)

    assert found.amount_usd == COST * factor


async def test_a_message_under_another_dimension_differs_by_its_price(books: Bookkeeping) -> None:
    await books.charged(NOON)
    books.answered(NOON, {**USAGE, "inference_geo": "us"})

    (found,) = await books.unexplained(DAY)

    assert (found.cause, found.amount_usd) == ("other_dimension", COST / 10)
    assert found.evidence["reported_as"]["inference_geo"] == "us"


async def test_aliases_and_dated_names_are_one_model(books: Bookkeeping) -> None:
    books.answered(NOON, model="claude-sonnet-4-5-20250929")
    await books.charged(NOON, model="claude-sonnet-4-5")

    assert list((await books.compared(DAY)).differences) == []


async def test_an_estimate_explains_its_own_kind_only(books: Bookkeeping) -> None:
    books.answered(NOON, {**USAGE, "output_tokens": 260})
    await books.charged(NOON, basis="partial", output_estimated=True)
    books.answered(NOON + timedelta(hours=2), {**USAGE, "input_tokens": 1001})
    await books.charged(NOON + timedelta(hours=2), basis="partial", output_estimated=True)

    result = await books.compared(DAY)

    assert [(each.cause, counts(each)) for each in result.differences] == [
        ("estimated", {"output": 60}),
        ("different_counts", {"input": 1}),
    ]


async def test_a_lost_message_does_not_hide_behind_an_estimate(books: Bookkeeping) -> None:
    books.answered(NOON, {"input_tokens": 0, "output_tokens": 260})
    books.answered(NOON, {"input_tokens": 0, "output_tokens": 200})
    await books.charged(
        NOON, {"input_tokens": 0, "output_tokens": 200}, basis="partial", output_estimated=True
    )

    (found,) = await books.unexplained(DAY)

    assert counts(found) == {"output": 260}


async def test_tokens_of_iterations_count_for_their_own_model(books: Bookkeeping) -> None:
    usage = {
        **USAGE,
        "server_tool_use": {"web_search_requests": 2},
        "iterations": [
            {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
            {"type": "advisor_message", "model": "claude-opus-5-5", "input_tokens": 900, "output_tokens": 80},
        ],
    }
    await books.both(NOON, usage)

    result = await books.compared(DAY)

    assert not result.differences
    assert not result.prices
    assert [(hour.model, hour.receipts) for hour in result.hours] == [("claude-opus-5-5", 0), (SONNET, 1)]


async def test_an_advisor_of_a_fast_message_has_the_standard_speed(books: Bookkeeping) -> None:
    advised = {"type": "advisor_message", "model": SONNET, "input_tokens": 900, "output_tokens": 80}
    usage = {**USAGE, "speed": "fast", "iterations": [advised]}
    await books.both(NOON, usage, model="claude-opus-4-8")

    result = await books.compared(DAY)

    assert not result.differences
    assert {hour.model for hour in result.hours} == {"claude-opus-4-8", SONNET}


async def test_a_refused_message_that_the_provider_counts_is_explained(books: Bookkeeping) -> None:
    usage = {"input_tokens": 4000, "output_tokens": 0}
    await books.both(NOON, usage, stop_reason="refusal")

    (found,) = (await books.compared(DAY)).differences

    assert (found.cause, counts(found)) == ("refused", {"input": 4000})


async def test_a_difference_names_the_account_of_its_user_profile(books: Bookkeeping) -> None:
    await execute(
        books.database,
        "UPDATE accounts SET provider_profile_id = 'uprof_1' WHERE id = :id",
        id=books.key.account_id,
    )
    other = await an_account(books.database, "other")
    books.answered(NOON, profile_id="uprof_1")
    await books.charged(NOON)
    books.answered(NOON)
    await books.charged(NOON, key=other)
    books.answered(NOON, {"input_tokens": 5, "output_tokens": 5}, profile_id="uprof_1")

    (found,) = await books.unexplained(DAY)

    assert found.account_id == books.key.account_id
