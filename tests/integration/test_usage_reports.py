"""Usage reports from rollups, compared with sums of the receipts themselves."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import available_timezones

import pytest
import pytest_asyncio
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.reports.records import GroupBy, UsageFilter
from app.billing.reports.service import BillingReports, UsageQuery
from app.errors import Invalid
from app.platform.clock.time_zones import require_time_zone
from app.platform.db import Database
from tests.factories import an_account
from tests.integration.statements import rows, scalar

FIRST = datetime(2026, 3, 27, tzinfo=UTC)
COLUMNS = "receipts input_tokens output_tokens cache_read_tokens cache_write_5m_tokens cache_write_1h_tokens"
MONEY = "cost_usd charged_credits cache_savings_usd web_search_requests web_fetch_requests"
INSERT = text(
    """
    INSERT INTO charge_receipts (
        id, source_system, source_reference, run_id, attempt, usage_unit_id, account_id, api_key_id,
        graph_id, executor_type, model, input_tokens, output_tokens, cache_read_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, web_search_requests, cost_usd, charged_credits,
        price_version, basis, output_estimated, origin, used_at, created_at, cache_savings_usd,
        provider_usage)
    VALUES (
        gen_random_uuid(), 'anthropic_sdk', :reference, 'r', 0, 'msg', :account, :key, :graph,
        'claude_sdk', :model, CAST(:n AS bigint), CAST(:n AS bigint) + 1, CAST(:n AS bigint) + 2,
        CAST(:n AS bigint) + 3, CAST(:n AS bigint) + 4, CAST(:n AS bigint) + 5,
        CAST(:n AS bigint) * 0.0000000001,
        CAST(:n AS bigint),
        'test', :basis, false, 'assistant', :at, clock_timestamp(), CAST(:n AS bigint) * 0.0000000003,
        jsonb_build_object('server_tool_use', jsonb_build_object('web_fetch_requests', CAST(:n AS bigint))))
    """
)
RAW = """
    SELECT {group} AS name, count(*) FILTER (WHERE basis <> 'adjustment'), sum(input_tokens),
           sum(output_tokens), sum(cache_read_tokens), sum(cache_write_5m_tokens),
           sum(cache_write_1h_tokens), sum(cost_usd), sum(charged_credits),
           sum(cache_savings_usd), sum(web_search_requests),
           coalesce(sum((provider_usage -> 'server_tool_use' ->> 'web_fetch_requests')::bigint)
               FILTER (WHERE basis <> 'adjustment'), 0)
      FROM charge_receipts
     WHERE account_id = :account AND used_at >= :since AND used_at < :until
     GROUP BY 1 ORDER BY 1
"""
GROUPS: dict[GroupBy | None, str] = {
    None: "''",
    "day": "(used_at AT TIME ZONE :zone)::date::text",
    "model": "model",
    "graph": "graph_id",
    "provider": "split_part(graph_id, ':', 1)",
    "key": "api_key_id::text",
}
WINDOWS = {
    "all of it": (FIRST - timedelta(days=1), FIRST + timedelta(days=9)),
    "whole days": (FIRST + timedelta(days=1), FIRST + timedelta(days=3)),
    "cut in the middle of a bucket": (
        FIRST + timedelta(hours=5, minutes=7, seconds=13),
        FIRST + timedelta(days=2, hours=3, minutes=59, microseconds=1),
    ),
    "within one bucket": (FIRST + timedelta(minutes=16), FIRST + timedelta(minutes=29)),
    "over one boundary": (FIRST + timedelta(minutes=10), FIRST + timedelta(minutes=20)),
}


@pytest_asyncio.fixture
async def key(database: Database) -> KeyRecord:
    """An account with several hundred receipts; another account has some, too."""
    key, second = await an_account(database), await an_account(database)
    other = await an_account(database, "other")
    rng = random.Random(11)  # noqa: S311 - nothing secret
    rows = [
        {
            "reference": f"r/0/{number}",
            "account": owner.account_id,
            "key": owner.id,
            "graph": rng.choice(["claude_agents:a", "claude_agents:b", "messages:a"]),
            "model": rng.choice(["claude-one", "claude-two", "claude-three"]),
            "n": rng.randint(0, 10**6),
            "basis": rng.choice(["final", "partial", "adjustment"]),
            # Half of them where the windows begin and end.
            "at": FIRST + timedelta(seconds=rng.choice([rng.uniform(0, 3600), rng.uniform(0, 8 * 86400)])),
        }
        for number, owner in enumerate(rng.choices([key, second, other], [5, 3, 2], k=600))
    ]
    async with database.transaction() as tx:
        await tx.execute(INSERT, rows)
    return key


ZONES = ("Asia/Kathmandu", "America/St_Johns", "Europe/Berlin")
"""Offsets of half and quarter hours, and a day with a change of the clocks."""
ALL_GROUPS = [*((group_by, "UTC") for group_by in GROUPS), *(("day", zone) for zone in ZONES)]


@pytest.mark.parametrize("window", WINDOWS)
async def test_rollups_equal_the_receipts(database: Database, key: KeyRecord, window: str) -> None:
    since, until = WINDOWS[window]
    for group_by, zone in ALL_GROUPS:
        query = UsageQuery(group_by, UsageFilter(since, until), time_zone=zone)
        found = await BillingReports(database).usage(key.account_id, query)

        bound = {"account": key.account_id, "since": since, "until": until}
        if group_by == "day":
            bound["zone"] = zone
        expected = await rows(database, RAW.format(group=GROUPS[group_by]), **bound)
        sums = [
            (each.group, *(getattr(each.sums, column) for column in (*COLUMNS.split(), *MONEY.split())))
            for each in found
        ]
        assert sums == [tuple(row) for row in expected]
        assert sums or window == "within one bucket"


async def test_filters_limit_what_is_summed(database: Database, key: KeyRecord) -> None:
    # Ends within a bucket, so that both rollups and receipts are summed.
    since, until = WINDOWS["cut in the middle of a bucket"]
    reports = BillingReports(database)

    window = UsageFilter(since, until)
    alone: dict[GroupBy, Callable[[str], UsageFilter]] = {
        "model": lambda group: replace(window, model=group),
        "graph": lambda group: replace(window, graph_id=group),
        "key": lambda group: replace(window, api_key_id=UUID(group)),
    }
    for group_by, filtered in alone.items():
        by_group = await reports.usage(key.account_id, UsageQuery(group_by, window))
        assert len(by_group) > 1
        for each in by_group:
            assert each.group is not None
            (found,) = await reports.usage(key.account_id, UsageQuery(filters=filtered(each.group)))
            assert found.sums == each.sums


async def test_a_split_adds_up_to_its_groups(database: Database, key: KeyRecord) -> None:
    reports = BillingReports(database)
    days = await reports.usage(key.account_id, UsageQuery("day"))
    models = await reports.usage(key.account_id, UsageQuery("model"))

    parts = await reports.usage(key.account_id, UsageQuery("day", split_by="model"))

    assert {part.part for part in parts} == {each.group for each in models}
    for days_or_models, of_part in ((days, "group"), (models, "part")):
        for whole in days_or_models:
            of_whole = [part.sums for part in parts if getattr(part, of_part) == whole.group]
            assert sum(sums.charged_credits for sums in of_whole) == whole.sums.charged_credits
            assert sum(sums.cost_usd for sums in of_whole) == whole.sums.cost_usd


async def test_parts_outside_the_top_are_summed_into_one(database: Database, key: KeyRecord) -> None:
    reports = BillingReports(database)
    models = await reports.usage(key.account_id, UsageQuery("model"))
    most = max(models, key=lambda each: each.sums.charged_credits)

    parts = await reports.usage(key.account_id, UsageQuery("day", split_by="model", top=1))

    assert {part.part for part in parts} == {most.group, None}
    of_most = sum(part.sums.charged_credits for part in parts if part.part == most.group)
    of_rest = sum(part.sums.charged_credits for part in parts if part.part is None)
    assert of_most == most.sums.charged_credits
    assert of_rest == sum(each.sums.charged_credits for each in models if each is not most)


async def test_windows_reach_to_the_ends_of_the_calendar(database: Database, key: KeyRecord) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    reports = BillingReports(database)

    whole = await reports.usage(key.account_id, UsageQuery())

    assert await reports.usage(key.account_id, UsageQuery(filters=UsageFilter(first, last))) == whole
    late = UsageFilter(since=last - timedelta(seconds=1))
    assert await reports.usage(key.account_id, UsageQuery(filters=late)) == []


async def test_every_accepted_time_zone_is_known_to_the_database(database: Database) -> None:
    accepted = []
    for zone in sorted(available_timezones()):
        with suppress(Invalid):
            require_time_zone(zone)
            accepted.append(zone)

    known = "SELECT count(now() AT TIME ZONE zone) FROM unnest(CAST(:zones AS text[])) AS zone"
    assert await scalar(database, known, zones=accepted) == len(accepted)
