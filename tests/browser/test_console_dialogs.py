"""Dialogs of the console that stay: what the server refuses, and what is to be read."""

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
        await page.goto("/console?view=accounts&account=nobodys")
        await expect(page.get_by_role("alert")).to_have_count(1)


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
