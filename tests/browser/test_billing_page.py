"""The billing page in a browser."""

import asyncio
import csv
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.books import OF_WEEKS, UNKNOWN_MODEL, Books, opened
from tests.browser.site import PHONE, Key, Site, accessibility_problems, screenshot
from tests.e2e.stories import a_client
from tests.factories import a_budget

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALL = OF_WEEKS + 3
PER_PAGE = 50
SONNET = "claude-sonnet-4-6"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def books(site: Site) -> Books:
    return await opened(site)


def receipts(page: Page) -> Locator:
    return page.get_by_role("region", name="Receipts, newest first").locator("tbody tr")


def figure(page: Page, name: str) -> Locator:
    return page.get_by_label("Totals").locator(".figure", has_text=name)


def part(page: Page, name: str) -> Locator:
    """The row of a model, a graph or a key below the chart."""
    return page.get_by_role("region", name="Sums by").get_by_role("row", name=name)


async def test_the_overview_shows_a_month_and_changes_of_the_credit(site: Site, books: Books) -> None:
    async with site.visit(books.key, path="/billing") as page:
        await expect(figure(page, "Messages")).to_contain_text(f"{ALL}")
        await expect(figure(page, "Charged")).to_contain_text("$21.51")
        await expect(figure(page, "Saved by the cache")).to_contain_text("$12.98")
        await expect(page.get_by_text("Days and times are UTC.")).to_be_visible()
        await expect(receipts(page)).to_have_count(PER_PAGE)
        await screenshot(page, "billing")

        chart = page.get_by_role("img", name=f"{SONNET} $8.57, claude-opus-4-5 $6.75")
        await expect(chart.locator("canvas")).to_be_visible()
        await expect(part(page, SONNET)).to_have_text(re.compile(r"\$8\.5700\s*40%\s*95\s*\$5\.1300"))
        await page.get_by_text("Show each day as a table").click()
        days = page.get_by_role("region", name="Each day").locator("tbody tr")
        await expect(days).to_have_count(25)
        await expect(days.nth(1)).to_contain_text("$0.")
        assert await accessibility_problems(page) == []

        await chart.hover()
        await expect(page.locator(".tip")).to_contain_text("claude-opus-4-5")

        entries = page.get_by_role("region", name="Changes of credit, newest first").locator("tbody tr")
        await expect(entries.first).to_have_text(re.compile(r"debit\s*-?\$0\.\d{6}\s*-?\$\d+\.\d{6}"))
        export = page.locator("a[download='ledger.csv']")
        await expect(export).to_have_attribute("href", re.compile("v1/ledger"))


async def test_a_period_is_compared_with_the_one_before(site: Site, books: Books) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    now, before = [await charged(site, books, today - timedelta(days=ago), days=7) for ago in (6, 13)]
    async with site.visit(books.key, path="/billing?period=7d") as page:
        compared = re.compile(r"% (more|less) than in the 7 days before \(\$(\d+\.\d+)\)")
        await expect(figure(page, "Charged")).to_contain_text(compared)
        ((word, amount),) = compared.findall(await figure(page, "Charged").inner_text())
        assert (word, Decimal(amount)) == ("more" if now["all"] > before["all"] else "less", before["all"])
        for model in {*now, *before} - {"all"}:
            change = now.get(model, 0) - before.get(model, 0)
            shown = f"{'+' if change > 0 else '-' if change < 0 else ''}${abs(change):.4f}"
            await expect(part(page, model).locator("td").last).to_have_text(shown)
        await screenshot(page, "billing-compared")
        assert await accessibility_problems(page) == []

        await page.get_by_label("Period").select_option("month")
        await expect(figure(page, "Charged")).to_contain_text("on the same days of last month")
        pace = figure(page, "Charged").get_by_text("At this pace")
        await expect(pace).to_have_count(int(today.day > 1))


async def charged(site: Site, books: Books, first: datetime, *, days: int) -> dict[str, Decimal]:
    """Dollars by model, and of all."""
    window = {"from": first.isoformat(), "to": (first + timedelta(days=days)).isoformat(), "groupBy": "model"}
    async with a_client(site.world.url, books.key.secret) as http:
        report = (await http.get("/v1/usage", params=window)).json()
    items = {item["group"]: item["chargedCredits"] for item in report["items"]}
    every = {**items, "all": report["total"]["chargedCredits"]}
    return {name: Decimal(amount) / 10**7 for name, amount in every.items()}


async def test_filters_are_kept_in_the_url(site: Site, books: Books) -> None:
    async with site.visit(books.key, path="/billing") as page:
        await page.get_by_role("button", name="Graph", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(part(page, "claude_agents:analyst")).to_contain_text("120")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Space")
        await part(page, "nightly").get_by_role("button").click()
        await expect(page).to_have_url(re.compile(r"split=key.*key="))
        await expect(figure(page, "Messages")).to_contain_text("80")
        await expect(receipts(page).filter(has_text="nightly")).to_have_count(PER_PAGE)

        await page.get_by_label("Model").select_option(SONNET)
        await expect(receipts(page)).to_have_count(31)
        await expect(receipts(page).filter(has_text=SONNET)).to_have_count(31)
        await expect(figure(page, "Messages")).to_contain_text("31")
        narrowed = await figure(page, "Messages").inner_text()
        await page.reload()
        await expect(figure(page, "Messages")).to_have_text(narrowed, use_inner_text=True)
        await expect(page.get_by_label("Model")).to_have_value(SONNET)
        await page.go_back()
        await expect(figure(page, "Messages")).to_contain_text("80")
        await expect(page.get_by_label("Model")).to_have_value("")


@pytest.mark.long
async def test_receipts_are_paged_filtered_and_exported(site: Site, books: Books) -> None:
    async with site.visit(books.key, path="/billing") as page:
        pages = page.get_by_role("navigation", name="Pages of receipts")
        await expect(pages.get_by_role("button", name="Newer")).to_be_disabled()
        await expect(receipts(page).first).to_contain_text("a browser's")
        newest = await receipts(page).first.inner_text()
        for number in range(2, 6):
            await pages.get_by_role("button", name="Older").click()
            await expect(pages.get_by_text(f"Page {number}")).to_be_visible()
            await expect(page.locator("[aria-busy=true]")).to_have_count(0)
        await expect(receipts(page)).to_have_count(ALL - 4 * PER_PAGE)
        await expect(pages.get_by_role("button", name="Older")).to_be_disabled()
        for _ in range(4):
            await pages.get_by_role("button", name="Newer").click()
        await expect(receipts(page).first).to_have_text(newest, use_inner_text=True)
        await pages.get_by_role("button", name="Older").click()

        await page.get_by_label("Basis").select_option("partial")
        await expect(receipts(page)).to_have_count(4)
        await expect(pages.get_by_text("Page 1")).to_be_visible()
        await expect(receipts(page).first).to_contain_text("~")
        async with page.expect_download() as download:
            shown = page.get_by_role("region", name="Receipts", exact=True)
            await shown.get_by_role("link", name="Export as CSV").click()
        exported = await download.value
        assert exported.suggested_filename == "receipts.csv"
        with (await exported.path()).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert sorted(row["runId"] for row in rows) == [
            "old-run-1",
            "old-run-121",
            "old-run-181",
            "old-run-61",
        ]
        assert {row["basis"] for row in rows} == {"partial"}

        await page.get_by_label("Basis").select_option("")
        await page.get_by_label("Origin").select_option("hidden")
        await expect(receipts(page)).to_have_count(4)
        await page.get_by_label("Run id").fill("old-run-62")
        await page.keyboard.press("Enter")
        await expect(receipts(page)).to_have_count(1)
        await page.get_by_label("Graph").select_option("claude_agents:analyst")
        await expect(page.get_by_text("No receipt matches.")).to_be_visible()


async def test_an_alarm_links_to_its_run(site: Site, books: Books) -> None:
    async with site.visit(books.key, path="/billing") as page:
        unpriced = page.get_by_role("group").filter(has_text="1 message without a complete price")
        await unpriced.get_by_text("1 message without a complete price").click()
        await receipts(page).filter(has_text=UNKNOWN_MODEL).get_by_role("button").click()
        details = page.locator(".receipt-details")
        await expect(details).to_contain_text(f"not charged: model={UNKNOWN_MODEL}")
        await expect(details).to_contain_text("Nothing of it has a known price yet.")
        await expect(unpriced.get_by_role("listitem")).to_contain_text(
            [f"{books.unpriced} · {UNKNOWN_MODEL}"]
        )
        drifted = page.get_by_role("group").filter(has_text="The two meters disagreed")
        await drifted.get_by_text("disagreed in 1 run, on 1 message and $0.0015 of cost").click()
        await expect(drifted.get_by_role("listitem")).to_contain_text(["drift 1, $0.0015 of cost"])
        await screenshot(page, "billing-alarms")
        await page.get_by_role("link", name=books.drifted).first.click()

        await expect(page).to_have_url(re.compile(f"run={books.drifted}"))
        meters = page.get_by_role("region", name="The two meters")
        await expect(meters).to_contain_text(re.compile(r"SDK\s*2\s*Gateway\s*3\s*Drift\s*1"))
        await expect(meters).to_contain_text("They disagreed on 1 message.")
        costs = r"SDK\s*\$0\.0201\s*Measured.*\$0\.0117\s*The SDK.*-\$0\.0099\s*Difference\s*\$0\.0015"
        await expect(meters).to_contain_text(re.compile(costs))
        await expect(meters).to_contain_text("The SDK does not count: service tier batch.")
        entries = page.get_by_role("list", name="Timeline").get_by_role("listitem")
        first = r"\+\d.*Step 1 \$0\.\d+ · claude-sonnet-5-5\s*Let me look\.\s*core__get_current_time"
        await expect(entries).to_have_text(
            [
                re.compile(r"\+0\.00 s\s*Accepted"),
                re.compile(r"\+\d.*Started with claude-sonnet-5-5"),
                re.compile(first),
                # What a model says is text, whatever it looks like.
                re.compile(r"\+\d.*Step 2.*It is <b>late</b> in Tokyo\."),
                re.compile(r"\+\d.*Succeeded \(stop\)"),
            ]
        )
        await entries.get_by_text("core__get_current_time").click()
        await expect(entries.get_by_text("Asia/Tokyo").first).to_be_visible()
        spans = page.get_by_role("region", name="Spans of this run").locator("tbody tr")
        took = r"\s*\+\d.*s\s*\d.*s$"
        kinds = [
            r"Waits for a place\s*queue",
            r"Step 1\s*model",
            r"core__get_current_time\s*tool",
            r"Step 2\s*model",
        ]
        await expect(spans).to_have_text([re.compile(kind + took) for kind in kinds])
        await expect(page.get_by_text("Added up again they are")).to_contain_text("as the run says")
        charged = page.get_by_role("region", name="Receipts of this run").locator("tbody tr")
        await expect(charged).to_contain_text(["8,000", "9,000"])
        await screenshot(page, "billing-run")
        await shows_its_price(charged.nth(1))
        await screenshot(page, "billing-receipt")
        assert await accessibility_problems(page) == []

        await page.get_by_role("link", name="All of billing").click()
        await expect(receipts(page)).to_have_count(PER_PAGE)


async def shows_its_price(receipt: Locator) -> None:
    """The receipt of `EVERYTHING`, opened: it can be added by hand, and says what the provider said."""
    disclosure = receipt.get_by_role("button")
    await expect(disclosure).to_have_attribute("aria-expanded", "false")
    await disclosure.click()
    details = receipt.locator("xpath=following-sibling::tr[1]")
    lines = details.get_by_role("table", name="Lines of the price").locator("tbody tr")
    await expect(lines).to_have_text(
        [
            re.compile(r"message\s*Input tokens\s*claude-sonnet-5-5\s*300\s*0\.000002\s*0\.0006$"),
            re.compile(r"Output tokens.*20\s*0\.00001\s*0\.0002$"),
            re.compile(r"Cache reads.*9,000\s*0\.0000001\s*0\.0009$"),
            re.compile(r"Cache writes, 5 minutes.*400\s*0\.0000025\s*0\.001$"),
            re.compile(r"Region: us.*\$0\.0027\s*\W \+0\.1\s*0\.00027$"),
            re.compile(r"Service tier: batch.*\$0\.00297\s*\W -0\.5\s*-0\.001485$"),
            re.compile(r"advisor message\s*Input tokens\s*claude-opus-5-5\s*5,000\s*0\.000004\s*0\.02$"),
            re.compile(r"Output tokens.*100\s*0\.00002\s*0\.002$"),
            re.compile(r"Region: us.*\$0\.022\s*\W \+0\.1\s*0\.0022$"),
            re.compile(r"Service tier: batch.*\$0\.0242\s*\W -0\.5\s*-0\.0121$"),
            re.compile(r"Web searches.*2\s*0\.01\s*0\.02$"),
        ]
    )
    await expect(details.locator("tfoot")).to_contain_text(re.compile(r"Sum\s*\$0\.033585$"))
    for fact in (
        r"Region\s*us",
        r"Service tier\s*batch",
        r"Ended with\s*end_turn",
        r"req_msg_sim\d+",
        "org-of-the-operator",
    ):
        await expect(details).to_contain_text(re.compile(fact))
    await details.get_by_text("Usage as the provider reported it").click()
    await expect(details.locator("pre")).to_contain_text('"type": "advisor_message"')


@pytest.mark.long
async def test_both_views_fit_a_phone_in_dark_mode(site: Site, books: Books) -> None:
    async with site.visit(books.key, path="/billing", size=PHONE, dark=True) as page:
        for path, name, sign in (
            ("/billing", "billing-phone-dark", "Show each day as a table"),
            (f"/billing?run={books.drifted}", "billing-run-phone-dark", "Succeeded (stop)"),
        ):
            await page.goto(path)
            await expect(page.get_by_text(sign)).to_be_visible()
            await page.locator(".disclosure").last.click()
            await expect(page.locator(".receipt-details")).to_be_visible()
            width = await page.evaluate("() => document.documentElement.scrollWidth")
            assert width == PHONE[0]
            await screenshot(page, name)
            assert await accessibility_problems(page) == []


@pytest.mark.long
async def test_a_custom_period_and_a_failed_request(site: Site, books: Books) -> None:
    async with site.visit(books.key, path="/billing", complaints=["net::ERR_FAILED"]) as page:
        await page.get_by_label("Period").select_option("custom")
        first, last = page.get_by_label("First day"), page.get_by_label("Last day")
        day = await last.input_value()
        await first.fill(day)
        await expect(figure(page, "Messages")).to_contain_text("3")
        await last.fill("2020-01-01")
        await expect(page.get_by_role("alert")).to_contain_text("a last day that is not before it")
        await first.fill("2020-01-01")
        await expect(page.get_by_text("Nothing was charged in this period.")).to_be_visible()
        await expect(page.get_by_text("No alarms")).to_be_visible()

        await page.route("**/v1/balance", lambda route: route.abort())
        await page.get_by_label("Period").select_option("7d")
        problem = page.get_by_role("alert")
        await expect(problem).to_contain_text("Cannot show what was spent: The server cannot be reached.")
        await expect(receipts(page)).to_have_count(PER_PAGE)
        await page.unroute("**/v1/balance")
        await problem.get_by_role("button", name="Try again").click()
        await expect(figure(page, "Messages")).to_contain_text("6")


async def test_the_totals_do_not_wait_for_the_days_that_are_compared(site: Site, books: Books) -> None:
    go_on = asyncio.Event()

    async def hold(route: Route) -> None:
        # The charges of the days before, too, are not split.
        if "groupBy=day" in route.request.url and "splitBy" not in route.request.url:
            await go_on.wait()
        await route.continue_()

    async with site.visit(books.key, path="/approvals") as page:
        await page.route("**/v1/usage?*", hold)
        await page.goto("/billing")
        await expect(figure(page, "Messages")).to_contain_text(f"{ALL}")
        await expect(page.get_by_text("Loading what was spent")).to_be_visible()
        await expect(receipts(page)).to_have_count(0)
        early = await page.get_by_label("Totals").bounding_box()
        go_on.set()
        await expect(receipts(page)).to_have_count(PER_PAGE)
        await expect(figure(page, "Messages")).to_contain_text(f"{ALL}")

        assert await page.get_by_label("Totals").bounding_box() == early


@pytest.mark.long
async def test_a_chart_that_cannot_be_loaded_leaves_its_table(site: Site, books: Books) -> None:
    async with site.visit(books.key, complaints=["Failed to load resource"], path="/approvals") as page:
        await page.route("**/uplot.js", lambda route: route.abort())
        await page.goto("/billing")
        await expect(page.get_by_text("The chart cannot be loaded.")).to_be_visible()
        await expect(page.get_by_role("img", name=SONNET)).to_be_hidden()
        await page.get_by_text("Show each day as a table").click()
        await expect(page.get_by_role("region", name="Each day").locator("tbody tr")).to_have_count(25)


async def test_an_account_without_receipts_sees_its_budget(site: Site, books: Books) -> None:
    key = await site.key()
    services = site.world.services
    account = (await services.accounts.authenticate(key.secret)).account_id
    await services.ledger.grant(account, 50_000_000)
    await services.ledger.change_mode(account, "prepaid")
    await services.budgets.set_budget(account, a_budget(credits=20_000_000))

    async with site.visit(key, path="/billing", complaints=["404"]) as page:
        await expect(page.get_by_text("Nothing was charged in this period.")).to_be_visible()
        await expect(figure(page, "Credit left")).to_contain_text("$5.00")
        budget = page.get_by_role("meter", name="Budget limit")
        await expect(budget).to_have_attribute("aria-valuetext", "$0.00 of $2.00 a month")
        await expect(page.get_by_text("No receipt matches.")).to_be_visible()
        unusual = page.get_by_role("region", name="Unusual days")
        await expect(unusual).to_contain_text("once 7 of them have charges")
        await screenshot(page, "billing-empty")
        assert await accessibility_problems(page) == []

        # What belongs to somebody else does not exist.
        await page.goto(f"/billing?run={books.drifted}")
        await expect(page.get_by_role("alert")).to_contain_text("Cannot show this run")


@pytest.mark.long
async def test_missing_scopes_are_explained(site: Site, books: Books) -> None:
    async with site.visit(await site.key("runs:read"), path="/billing") as page:
        await expect(page.get_by_role("heading", name="may not see what was spent")).to_be_visible()
        await expect(page.get_by_text("receipts:read").first).to_be_visible()
        assert await accessibility_problems(page) == []

    _, secret = await site.world.services.accounts.create_key(books.key.account, ["receipts:read"])
    reader = Key(books.key.id, books.key.account, secret)
    async with site.visit(reader, path=f"/billing?run={books.drifted}") as page:
        await expect(page.get_by_text("lacks the scope runs:read")).to_be_visible()
        await expect(
            page.get_by_role("region", name="Receipts of this run").locator("tbody tr")
        ).to_have_count(2)
