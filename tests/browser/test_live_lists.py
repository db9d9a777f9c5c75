"""Lists that are read again and again, and what their filters and names need."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.site import Site
from tests.browser.test_console_page import a_run, rows

pytestmark = pytest.mark.asyncio(loop_scope="session")

MORE_THAN_A_PAGE = 201


async def test_a_list_stays_while_it_cannot_be_read_again(site: Site) -> None:
    key = await site.key()
    await a_run(site, key.secret)
    async with site.visit(key, complaints=["Failed to load resource"]) as page:
        await page.clock.install()
        await page.goto("/console?view=runs")
        await expect(rows(page, "Runs")).to_have_count(1)
        await page.route("**/v1/runs?*", lambda route: route.abort())
        await page.clock.fast_forward("01:00")
        problem = page.get_by_role("alert")
        await expect(problem).to_contain_text(
            re.compile(r"Cannot refresh runs, shown as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: The server")
        )
        await expect(problem).to_contain_text("It is tried again by itself.")
        await expect(rows(page, "Runs")).to_have_count(1)

        # Rows of another question are no answer to this one.
        await page.get_by_label("Status").select_option("failed")
        await expect(problem).to_contain_text("Cannot show runs: The server")
        await expect(rows(page, "Runs")).to_have_count(0)
        await page.get_by_label("Status").select_option("any")
        await page.unroute("**/v1/runs?*")
        await page.clock.fast_forward("01:00")
        await expect(rows(page, "Runs")).to_have_count(1)
        await expect(problem).to_have_count(0)


async def test_a_wrong_filter_is_explained_beside_its_field(site: Site) -> None:
    async with site.visit(await site.key(), complaints=["status of 422"], path="/console") as page:
        for path in ("/console?view=runs", "/billing"):
            await page.goto(path)
            tag = page.get_by_label("Tag")
            await tag.fill("team=search")
            await tag.press("Enter")
            await expect(tag).to_have_accessible_name("Tag must be a name and a value, such as team:search")
            await expect(page.locator("main")).not_to_contain_text("^")
            await expect(page.locator("main")).not_to_contain_text("tried again by itself")
        # The same question has the same answer: it is not asked again until the filter is another one.
        await page.clock.install()
        await page.goto("/console?view=runs&tag=wrong")
        await expect(page.get_by_role("alert")).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.clock.fast_forward("01:00")
        await page.get_by_label("Tag").fill("team:search")
        await page.get_by_label("Tag").press("Enter")
        await expect(page.get_by_text("No run matches.")).to_be_visible()
        assert [url for url in asked if "tag=wrong" in url] == []


async def test_the_names_of_all_keys_are_found(site: Site) -> None:
    key = await site.key()
    accounts = site.world.services.accounts
    await a_run(site, key.secret)
    for number in range(MORE_THAN_A_PAGE):
        await accounts.create_key(key.account, ["runs:read"], name=f"number {number}")
    async with site.visit(key, path="/billing?split=key") as page:
        await expect(page.get_by_role("region", name="Sums by").get_by_role("row").nth(1)).to_contain_text(
            "a browser's"
        )
        await page.goto("/console?view=runs")
        await expect(page.get_by_label("API key").get_by_role("option", name="a browser's")).to_have_count(1)
