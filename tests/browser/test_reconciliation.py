"""The comparison with the provider's reports on the billing page."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from app.billing.prices.model_price import OperatorPrice
from app.billing.prices.price_list import PriceList
from tests.browser.conftest import a_new_site
from tests.browser.site import PHONE, Key, Site, accessibility_problems, screenshot
from tests.integration.bookkeeping import CHEAP, OTHER_KEY, SONNET, bookkeeping

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
NOON = DAY + timedelta(hours=12)
SECTION = re.compile("Compared with the provider.s reports")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(
    postgres: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    """A server of its own: the differences of all accounts are looked at."""
    async with a_new_site(postgres, browser, tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def key(site: Site) -> Key:
    """An account with a confirmed message and a doubled receipt; another program used a key of its own."""
    key = await site.key("receipts:read", "runs:read")
    accounts = site.world.services.accounts
    record = next(each for each in await accounts.list_keys() if each.id == key.id)
    prices = PriceList([OperatorPrice(SONNET, DAY, CHEAP)])
    async with bookkeeping(site.world.services.database, record, prices=prices) as books:
        await books.both(NOON)
        await books.charged(NOON)
        await books.both(NOON + timedelta(hours=1), model="claude-opus-4-8")
        books.answered(NOON, api_key=OTHER_KEY)
        await books.compared(DAY)
    return key


async def operators(site: Site, key: Key) -> Key:
    record, secret = await site.world.services.accounts.create_key(
        key.account, ["receipts:read", "runs:read", "admin"]
    )
    return Key(record.id, key.account, secret)


async def test_an_account_sees_what_is_confirmed(site: Site, key: Key) -> None:
    async with site.visit(key, path="/billing") as page:
        section = page.get_by_role("region", name=SECTION)
        await expect(section).to_contain_text("are confirmed by its own reports")
        await expect(section).to_contain_text("in hours with an unexplained difference")
        await section.get_by_text("Differences about this account").click()
        await expect(section.get_by_role("listitem")).to_contain_text(
            "charged twice (doubled_receipt) · -$0.006"
        )
        await expect(section.get_by_role("table")).to_have_count(0)
        await screenshot(page, "reconciliation-account")


async def test_an_operator_sees_residual_explained_and_unexplained(site: Site, key: Key) -> None:
    async with site.visit(await operators(site, key), path="/billing") as page:
        section = await opened(page)
        row = section.get_by_role("row", name="All models")
        cells = await row.get_by_role("cell").all_inner_texts()
        assert [cell.strip() for cell in cells] == [
            "3",
            "$0.0245",
            "$0.0185",
            "-$0.0060",
            "$0.0000",
            "-$0.0060",
            "$0.0060",
        ]
        await expect(section).to_contain_text(
            "claude-sonnet-4-6 input: 0.000003 USD, ours 0.0000015 (file 1)"
        )
        await screenshot(page, "reconciliation-operator")
        assert await accessibility_problems(page) == []
        await section.get_by_role("link", name="What to do about each of them").click()
        await expect(page.get_by_text("doubled_receipt")).to_be_visible()


async def test_it_fits_a_phone_in_dark_mode(site: Site, key: Key) -> None:
    async with site.visit(await operators(site, key), path="/billing", size=PHONE, dark=True) as page:
        await opened(page)
        assert await page.evaluate("() => document.documentElement.scrollWidth") == PHONE[0]
        await screenshot(page, "reconciliation-phone-dark")
        assert await accessibility_problems(page) == []


async def opened(page: Page) -> Locator:
    section = page.get_by_role("region", name=SECTION)
    await section.get_by_text("1 unexplained difference of all accounts").click()
    await section.get_by_text("1 price of the provider is not ours").click()
    await section.scroll_into_view_if_needed()
    return section
