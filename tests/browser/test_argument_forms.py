"""The form by which the arguments of a call are changed: what the tool takes, also if the call has it not."""

import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.browser.rooms import BOOK, BOOKER
from tests.browser.site import PHONE, Key, Site, accessibility_problems, screenshot
from tests.browser.test_approvals_page import started, waits
from tests.browser.test_chat_page import ended, send
from tests.e2e.stories import a_client

pytestmark = pytest.mark.asyncio(loop_scope="session")

ASKED = {"room": "blue", "people": 3}


def booking(site: Site) -> None:
    site.model.script = in_turn(Reply([ToolUse(BOOK, ASKED)]), Reply([Text("Booked.")]))


def booked(site: Site) -> Any:
    """What the model was told of the only booking."""
    (result,) = site.world.simulator.requests[-1].tool_results
    return json.loads(result["content"][0]["text"])


async def fill(page: Page) -> None:
    form = page.get_by_role("form", name="Decide about")
    await form.get_by_role("button", name="Change the arguments").click()
    await expect(form.get_by_label("floor optional")).to_be_visible()
    await expect(form.get_by_label("room").locator("option")).to_have_text(["\u2013", "blue", "green"])
    await form.get_by_label("room").select_option("green")
    await form.get_by_label("people").fill("12")
    await form.get_by_label("projector").select_option("true")
    await form.get_by_label("note").fill("By the window")
    await form.get_by_label("note").fill("")
    await form.get_by_label("floor").select_option("upper")
    await expect(form.get_by_text("At most ten.")).to_have_text("At most ten.")


async def test_the_form_in_the_chat_offers_what_the_call_does_not_have(site: Site) -> None:
    booking(site)
    async with site.visit(await site.key(), size=PHONE) as page:
        await send(page, "Book a room", graph=BOOKER)
        await fill(page)
        await screenshot(page, "argument-form")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await accessibility_problems(page) == []
        await page.get_by_role("button", name="Allow", exact=True).click()
        await ended(page)
    assert booked(site) == {"room": "green", "people": 12, "projector": True, "floor": "upper"}


async def test_the_form_on_the_page_of_approvals_is_the_same(site: Site) -> None:
    booking(site)
    key: Key = await site.key()
    async with (
        site.visit(key, path="/approvals", complaints=["status of 422"]) as page,
        a_client(site.world.url, key.secret) as http,
    ):
        run_id = await started(http, "Book a room", BOOKER)
        await fill(page)
        _, secret = await site.world.services.accounts.create_key(key.account, ["runs:read"])
        async with a_client(site.world.url, secret) as reader:
            listed = [(await each.get("/v1/approvals")).json()["items"][0] for each in (http, reader)]
        assert listed[0]["inputSchema"]["required"] == ["room", "people"]
        assert listed[1]["inputSchema"] is None
        await page.get_by_label("people").fill("0")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("people: ")
        await page.get_by_label("people").fill("7")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await waits(page, "Nothing waits")
        await http.get(f"/v1/runs/{run_id}/events")
    assert booked(site) == {"room": "green", "people": 7, "projector": True, "floor": "upper"}
