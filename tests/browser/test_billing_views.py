"""The billing page explains what was charged: for whom, when, and what is unusual."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect
from sqlalchemy import text

from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.usage.records import CacheMiss, TokenUsage
from tests.browser.site import DESKTOP, PHONE, Key, Site, accessibility_problems, resize, screenshot
from tests.factories import a_budget, a_fact

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONCE = 5
"""Days ago, when thirty times as much was used as on the others."""
_OF_WEEKS = text(
    """
    INSERT INTO charge_receipts (
        id, source_system, source_reference, run_id, attempt, usage_unit_id, account_id, api_key_id,
        graph_id, executor_type, model, input_tokens, output_tokens, cache_read_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, web_search_requests, cost_usd, charged_credits,
        price_version, basis, output_estimated, origin, created_at, used_at, cache_savings_usd,
        end_user, tags)
    SELECT gen_random_uuid(), 'anthropic_sdk', CAST(:account AS uuid) || '-' || n, 'run-' || n, 0,
           'msg_' || n, CAST(:account AS uuid), CAST(:key AS uuid), 'messages:assistant', 'claude_sdk',
           CASE WHEN cost = 3 THEN 'claude-opus-4-5' ELSE 'claude-sonnet-4-6' END,
           1000, 100, 20000, 500, 0, 0, cost, cost * 10000000,
           'test', 'final', false, 'assistant', moment, moment, 0.054,
           'u-' || n % 3, jsonb_build_object('team', CASE WHEN n % 2 = 0 THEN 'search' ELSE 'ads' END)
      FROM generate_series(0, 39) AS n
     CROSS JOIN LATERAL (SELECT CASE WHEN n = :once THEN 3 ELSE 0.1 END AS cost) AS costs
     CROSS JOIN LATERAL (
           SELECT date_trunc('day', now(), 'UTC') - interval '1 day' * n + interval '1 s' * n AS moment
           ) AS used
    """
)


@dataclass(frozen=True, slots=True)
class Weeks:
    """An account, one of whose days was unlike the others."""

    key: Key
    day: str


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def weeks(site: Site) -> Weeks:
    key = await site.key()
    services = site.world.services
    account = (await services.accounts.authenticate(key.secret)).account_id
    values = {"account": account, "key": key.id, "once": ONCE}
    async with services.database.transaction() as tx:
        await tx.execute(_OF_WEEKS, values)
    await services.budgets.set_budget(account, a_budget(credits=36_500_000))
    return Weeks(key, (datetime.now(UTC) - timedelta(days=ONCE)).date().isoformat())


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


async def test_an_unusual_day_is_cut_off_named_and_opened_by_hours(site: Site, weeks: Weeks) -> None:
    async with site.visit(weeks.key, path="/billing", size=(1280, 1600)) as page:
        spent = card(page, "Charged per day")
        await expect(spent).to_contain_text(
            f"Cut off, because it is far above the others: {weeks.day} ($3.00)"
        )
        await expect(spent).to_contain_text("Budget limit: $3.65 a month, $0.12 a day if spread evenly")
        unusual = card(page, "Unusual days").get_by_role("listitem")
        said = f"{weeks.day} $3.00 30.0 times the usual $0.10, mostly of claude-opus-4-5 ($3.00)"
        await expect(unusual).to_have_text([re.compile(re.escape(said).replace(r"\ ", r"\s*"))])
        moved = card(page, "Changed most").get_by_role("listitem")
        await expect(moved.first).to_contain_text(
            re.compile(r"claude-opus-4-5\s*\+\$3\.00\s*\$3\.00; nothing")
        )
        await screenshot(page, "billing-unusual")
        assert await accessibility_problems(page) == []

        await spent.get_by_role("button", name="Show in full").click()
        await expect(page).to_have_url(re.compile("axis=whole"))
        await expect(spent.get_by_text("Cut off, because")).to_have_count(0)
        await unusual.get_by_role("button").click()
        await expect(page).to_have_url(re.compile("unit=hour"))
        await card(page, "Charged per hour").get_by_text("Show each hour as a table").click()
        hours = page.get_by_role("region", name="Each hour").locator("tbody tr")
        await expect(hours).to_have_text([re.compile(rf"{weeks.day} 00:00\s*\$3\.0000\s*\$3\.0000")])


async def test_charges_are_split_and_filtered_by_who_used_them(site: Site, weeks: Weeks) -> None:
    async with site.visit(weeks.key, path="/billing") as page:
        sums = page.get_by_role("region", name="Sums by").locator("tbody tr")
        await page.get_by_role("button", name="Provider", exact=True).click()
        await sums.filter(has_text="messages").get_by_role("button").click()
        await expect(page).to_have_url(re.compile("split=graph"))
        await page.get_by_role("button", name="End user").click()
        await expect(sums.filter(has_text="u-2")).to_contain_text("$3.9000")
        await sums.filter(has_text="u-0").get_by_role("button").click()
        await expect(page).to_have_url(re.compile("split=endUser.*endUser=u-0"))
        await expect(sums).to_have_count(1)
        receipts = page.get_by_role("region", name="Receipts, newest first").locator("tbody tr")
        await expect(receipts).to_have_count(10)

        # A view is about end users or about one tag.
        await page.get_by_label("Split by the tag").fill("team")
        await page.get_by_role("button", name="By tag").click()
        await expect(sums.filter(has_text="ads")).to_contain_text("$4.4000")
        await expect(page.get_by_role("combobox", name="End user")).to_have_value("")
        await sums.filter(has_text="search").get_by_role("button").click()
        await expect(page).to_have_url(re.compile("tag=team%3Asearch"))
        await expect(receipts).to_have_count(15)
        await page.reload()
        await expect(page.get_by_role("searchbox", name="Tag")).to_have_value("team:search")
        await expect(receipts).to_have_count(15)


async def test_tokens_and_the_cache_have_charts_of_their_own(site: Site, weeks: Weeks) -> None:
    async with site.visit(weeks.key, path="/billing?measure=tokens") as page:
        chart = page.get_by_role(
            "img", name="Cache reads 600K, Other input 30K, Cache writes 15K, Output 3,000"
        )
        await expect(chart).to_be_visible()
        await page.get_by_role("button", name="Cache", exact=True).click()
        await expect(page.get_by_role("img", name="Saved $1.62, Paid for misses $0.00")).to_be_visible()
        await screenshot(page, "billing-cache")


async def test_operators_see_all_accounts_and_choose_one(site: Site, weeks: Weeks) -> None:
    operator = await site.key("admin", "receipts:read", "runs:read")
    async with site.visit(operator, path="/billing?split=account") as page:
        await expect(page.get_by_text("The sums are of all accounts")).to_be_visible()
        await expect(page.get_by_role("region", name="Receipts, newest first")).to_have_count(0)
        row = page.get_by_role("region", name="Sums by").get_by_role("row", name=weeks.key.account)
        await expect(row).to_contain_text("$5.9000")
        await row.get_by_role("button").click()
        await expect(page).to_have_url(re.compile(f"account={weeks.key.account}"))
        await expect(page.get_by_label("Totals")).to_contain_text("$5.90")
        receipts = page.get_by_role("region", name="Receipts, newest first").locator("tbody tr")
        await expect(receipts).to_have_count(30)
    async with site.visit(weeks.key, path="/billing?split=account", complaints=["403"]) as page:
        await expect(page.get_by_role("alert")).to_contain_text("admin")


@pytest.mark.long
async def test_receipts_are_seen_whole(site: Site, weeks: Weeks) -> None:
    async with site.visit(weeks.key, path="/billing") as page:
        table = page.get_by_role("region", name="Receipts, newest first")
        await expect(table.locator("tbody tr")).to_have_count(30)
        for size in (PHONE, DESKTOP, (1440, 900)):
            await resize(page, size, dark=size == PHONE)
            widths = await table.evaluate("(table) => [table.scrollWidth, table.clientWidth]")
            await table.scroll_into_view_if_needed()
            await screenshot(page, f"billing-receipts-{size[0]}")
            assert widths[0] <= widths[1], size
            assert await page.evaluate("() => document.documentElement.scrollWidth") == size[0]


async def test_causes_of_cache_misses_lead_to_their_receipts(site: Site) -> None:
    services, key = site.world.services, await site.key()
    own, _ = await services.accounts.create_key(key.account, ["runs:write"])
    misses = [
        CacheMiss("changed", "system[2]", expected_tokens=9_000_000, read_tokens=0, idle_s=3),
        CacheMiss("changed", "messages[4]", expected_tokens=1000, read_tokens=0, idle_s=3),
        CacheMiss("expired", None, expected_tokens=2000, read_tokens=0, idle_s=400),
        None,
    ]
    usages = [TokenUsage(input_tokens=0 if each is None else each.missed_tokens) for each in misses]
    facts = [
        a_fact(own, f"msg_{n}", usage=usage, cache_miss=miss)
        for n, (usage, miss) in enumerate(zip(usages, misses, strict=True))
    ]
    at = datetime.now(UTC)
    receipts = [
        NewReceipt.of(fact, PriceList().charge(BilledUsage.of(fact), at=at), "final") for fact in facts
    ]
    async with services.database.transaction() as tx:
        await insert_receipts(tx, receipts)

    async with site.visit(key, path="/billing") as page:
        table = page.get_by_role("region", name=re.compile("Causes of misses"))
        rows = table.locator("tbody tr")
        await expect(rows).to_have_count(3)
        await expect(rows.nth(0)).to_contain_text(re.compile(r"The system prompt changed.*9,000,000"))
        await expect(rows.nth(1)).to_contain_text(re.compile(r"The cache had expired.*No remedy"))
        for size in (PHONE, (1280, 900), (1440, 900)):
            await resize(page, size, dark=size == PHONE)
            await table.scroll_into_view_if_needed()
            await screenshot(page, f"billing-misses-{size[0]}")
            assert await table.evaluate("(it) => it.scrollWidth <= it.clientWidth"), size
        assert await accessibility_problems(page) == []

        await rows.nth(0).get_by_role("button").click()
        await expect(page).to_have_url(re.compile("miss=changed"))
        found = page.get_by_role("region", name="Receipts, newest first").locator("tbody tr")
        await expect(found).to_have_count(2)
        await page.get_by_role("combobox", name="Cache miss").select_option("expired")
        await expect(found).to_have_count(1)
