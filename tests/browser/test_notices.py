"""What the pages tell through the browser while they are hidden."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.browser.site import ASSISTANT, MAILER, PHONE, Site, accessibility_problems, screenshot
from tests.browser.test_approvals_page import started
from tests.browser.test_chat_page import ended, send
from tests.e2e.office import MAIL
from tests.e2e.stories import a_client

pytestmark = pytest.mark.asyncio(loop_scope="session")

TO_BOB = {"to": "bob@example.org", "text": "Hello Bob"}
SWITCH = "Notify me while this page is hidden"
_BROWSER = """
(() => {
  const told = JSON.parse(sessionStorage.getItem("told") ?? "[]");
  window.told = told;
  window.asked = 0;
  window.Notification = class extends EventTarget {
    static permission = sessionStorage.getItem("permission") ?? "default";
    static async requestPermission() {
      window.asked += 1;
      Notification.permission = ANSWER;
      sessionStorage.setItem("permission", ANSWER);
      return ANSWER;
    }
    constructor(title, { body }) {
      super();
      told.push([title, body]);
      sessionStorage.setItem("told", JSON.stringify(told));
    }
  };
})();
"""
_HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
}"""


def a_browser(*, answer: str = "granted") -> str:
    """The browser's own notifications are replaced by a list of them: without a desktop there are none."""
    return _BROWSER.replace("ANSWER", f'"{answer}"')


async def switch_on(page: Page) -> None:
    await page.locator(".who summary").click()
    await page.get_by_role("button", name=SWITCH).click()
    await expect(page.get_by_role("button", name=SWITCH)).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("Escape")


async def told(page: Page) -> Any:
    return await page.evaluate("window.told.slice(1)")


async def test_a_hidden_chat_tells_what_waits_and_that_a_run_has_ended(site: Site) -> None:
    hold = Hold(index=3)
    site.model.script = in_turn(Reply([ToolUse(MAIL, TO_BOB)]), Reply([Text("It is sent.")], hold=hold))
    async with site.visit(await site.key(), script=a_browser()) as page:
        assert await page.evaluate("window.asked") == 0
        await switch_on(page)
        assert await page.evaluate("window.told[0][0]") == "Notifications are on"
        await send(page, "Write to Bob", graph=MAILER)
        await page.evaluate(_HIDE, arg=True)
        await expect(page).to_have_title(re.compile(r"^\(1\) Write to Bob"))
        await expect(page.get_by_role("button", name="Allow", exact=True)).to_be_visible()
        assert await told(page) == [["Write to Bob", "It waits for your decision or answer."]]

        # A run that was there before the page: nothing tells how long it has taken.
        await page.get_by_role("button", name="Allow", exact=True).click()
        await hold.reached.wait()
        await page.reload()
        await expect(page.get_by_role("button", name="Stop")).to_be_visible()
        await page.evaluate(_HIDE, arg=True)
        hold.until.set()
        await ended(page)
        assert (await told(page))[1:] == [["Write to Bob", "The answer is there."]]
        await expect(page).to_have_title(re.compile(r"^Write to Bob"))


async def test_nothing_is_told_of_what_is_seen_or_was_not_asked_for(site: Site) -> None:
    site.model.script = in_turn(
        Reply([ToolUse(MAIL, TO_BOB)]), Reply([Text("Sent.")]), Reply([Text("Hello.")])
    )
    async with site.visit(await site.key(), script=a_browser()) as page:
        await page.evaluate(_HIDE, arg=True)
        await send(page, "Write to Bob", graph=MAILER)
        await page.get_by_role("button", name="Allow", exact=True).click()
        await ended(page)
        assert await page.evaluate("[window.told.length, window.asked]") == [0, 0]
        await page.evaluate(_HIDE, arg=False)
        await switch_on(page)
        await send(page, "Hello?", graph=ASSISTANT)
        await ended(page, answers=2)
        # A short run is not worth a notice either.
        assert await told(page) == []


async def test_a_browser_that_refuses_is_said_to(site: Site) -> None:
    async with site.visit(await site.key(), size=PHONE, script=a_browser(answer="denied")) as page:
        await page.locator(".who summary").click()
        await page.get_by_role("button", name=SWITCH).click()
        await expect(page.get_by_role("alert")).to_contain_text("The browser does not allow it")
        await expect(page.get_by_role("button", name=SWITCH)).to_have_attribute("aria-pressed", "false")
        await screenshot(page, "notices-refused")
        assert await accessibility_problems(page) == []


async def test_hidden_approvals_tell_what_begins_to_wait(site: Site) -> None:
    site.model.script = in_turn(Reply([ToolUse(MAIL, TO_BOB)]), Reply([ToolUse(MAIL, TO_BOB)]))
    key = await site.key()
    async with (
        site.visit(key, path="/approvals", script=a_browser()) as page,
        a_client(site.world.url, key.secret) as http,
    ):
        await switch_on(page)
        await started(http, "Write", MAILER)
        await expect(page).to_have_title(re.compile(r"^\(1\) Approvals"))
        assert await told(page) == []
        await page.evaluate(_HIDE, arg=True)
        await started(http, "Write", MAILER)
        await expect(page).to_have_title(re.compile(r"^\(2\) Approvals"))
        assert await told(page) == [["Something waits for an answer", "2 approvals"]]
