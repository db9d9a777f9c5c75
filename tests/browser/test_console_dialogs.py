"""Dialogs of the console that stay: what the server refuses, and what is to be read."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.site import ASSISTANT, Site
from tests.browser.test_console_page import act, an_operator, dialog, done
from tests.e2e.stories import a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_dialog_shows_what_is_wrong_and_stays_open(site: Site) -> None:
    operator, tenant = await an_operator(site), await site.key()
    path = f"/console?view=accounts&account={tenant.account}"
    async with site.visit(operator, path=path, complaints=["409", "404"]) as page:
        await page.get_by_role("button", name="Rename").click()
        await dialog(page).get_by_label("New name").fill(operator.account)
        await dialog(page).get_by_role("button", name="Rename").click()

        await expect(dialog(page).get_by_role("alert")).to_contain_text("name")
        await expect(dialog(page).get_by_label("New name")).to_have_value(operator.account)
        await dialog(page).get_by_role("button", name="Cancel").click()
        await expect(page.get_by_role("heading", name=tenant.account)).to_be_visible()
        for view in ("accounts&account=nobodys", "webhooks&webhook=none", "schedules&schedule=none"):
            await page.goto(f"/console?view={view}")
            await expect(page.get_by_role("alert")).to_have_count(1)
            await expect(page.get_by_text("Loading")).to_have_count(0)
            await expect(page.get_by_role("alert")).to_have_count(1)


async def test_what_is_wrong_is_named_by_its_label_and_brought_into_view(site: Site) -> None:
    async with site.visit(await site.key(), path="/console?view=webhooks", complaints=["422"]) as page:
        await act(page, "Register a webhook", {"URL": "ftp://nowhere"}, submit="Register")
        await expect(dialog(page).get_by_label("URL")).to_be_focused()
        await expect(dialog(page).get_by_role("alert")).to_be_in_viewport()
        await page.goto("/console?view=keys")
        await act(page, "Create a key", {"Name": "its", "Tags of its runs": "team ads"}, submit="Create")
        wrong = dialog(page).get_by_role("alert")
        await expect(wrong).to_have_text(re.compile("^Tags of its runs: team must have .*, ads must have .*"))
        await expect(wrong).to_be_in_viewport()


async def test_a_download_that_is_refused_says_why(site: Site) -> None:
    refused = "Too many exports at once; close some, then try again."
    problem = {"title": "T", "status": 429, "code": "too_many_streams", "detail": refused}
    async with site.visit(
        await site.key(), path="/console?view=statements", complaints=["status of 429"]
    ) as page:
        export = page.get_by_role("link", name="All receipts, CSV")
        await page.route("**/v1/receipts?*", lambda route: route.fulfill(status=429, json=problem))
        await export.click()
        await expect(page.get_by_role("alert")).to_have_text(refused)
        await page.unroute("**/v1/receipts?*")
        async with page.expect_download() as downloaded:
            await export.click()
        assert (await downloaded.value).suggested_filename == "receipts.csv"
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_what_a_dialog_says_stays_until_it_is_read(site: Site) -> None:
    key = await site.key()
    schedule = {"scheduleId": "gone", "cron": "0 7 * * *", "run": a_request(graphId=ASSISTANT)}
    async with a_client(site.world.url, key.secret) as http:
        (await http.post("/v1/schedules", json=schedule)).raise_for_status()
    async with site.visit(key) as page:
        await page.clock.install()
        await page.goto("/console?view=schedules&schedule=gone")
        await act(page, "Delete", submit="Delete the schedule")
        await expect(dialog(page).get_by_role("button", name="Done")).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.clock.fast_forward("01:00")
        assert asked == []
        await done(page)
        await expect(page.get_by_text("No run is started by a schedule.")).to_be_visible()
