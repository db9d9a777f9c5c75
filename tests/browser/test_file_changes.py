"""What an agent wants to change in files, as a person who decides about it sees it."""

import json

import pytest
from playwright.async_api import Page, expect

from app.simulator.script import ToolUse
from tests.browser.site import DESKTOP, PHONE, Key, Site, looks_well, screenshot
from tests.browser.test_chat_page import ended, send
from tests.e2e import workshop
from tests.e2e.stories import a_client
from tests.programs import require

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATH = "/workspace/notes.txt"
BEFORE = "one\ntwo\nthree\nfour\nfive"
REVERSES = "\u202e"
HOSTILE = f"<img src=x onerror=alert(1)>{REVERSES}txt.exe"


async def decided(page: Page, *, allow: str) -> None:
    form = page.get_by_role("form", name="Decide about")
    await form.get_by_role("button", name=allow, exact=True).click()


async def content_of(site: Site, key: Key) -> str:
    """The file of the only run."""
    async with a_client(site.world.url, key.secret) as http:
        (run,) = (await http.get("/v1/runs")).json()["items"]
        return (await http.get(f"/v1/runs/{run['runId']}/files/notes.txt")).text


async def test_changed_lines_are_shown_and_the_change_is_changed(site: Site) -> None:
    require("bwrap", "socat")
    edit = {"file_path": PATH, "old_string": "two\nthree", "new_string": f"two\n{HOSTILE}"}
    site.model.script = workshop.calling(
        ToolUse("Write", {"file_path": PATH, "content": BEFORE}),
        ToolUse("Edit", {**edit, "replace_all": False}),
    )
    key = await site.key()
    async with site.visit(key) as page:
        await send(page, "Edit it", graph=workshop.EDITOR)
        arguments = page.get_by_role("group", name="Arguments")
        added, removed = arguments.locator("ins"), arguments.locator("del")
        await expect(added).to_have_text([f"+ {line}" for line in BEFORE.split("\n")])
        await expect(removed).to_have_count(0)
        await decided(page, allow="Allow")
        await expect(removed).to_have_text(["- three"])
        await expect(arguments.last.locator("span")).to_have_text(["  two"])
        await expect(arguments.last).to_contain_text('"replace_all": false')
        # In the order in which it is stored.
        await expect(added.last).to_have_text(f"+ {HOSTILE.replace(REVERSES, '')}")
        await expect(page.locator(".tool").last).not_to_contain_text(REVERSES)
        await expect(page.locator(".diff img")).to_have_count(0)
        await looks_well(page, "chat-change", (DESKTOP, True), (DESKTOP, False))

        await page.get_by_role("button", name="Change the arguments").click()
        await expect(page.get_by_label("replace_all")).not_to_be_checked()
        await looks_well(page, "chat-change-form", (DESKTOP, True), (DESKTOP, False))
        # In a field its characters would be seen in another order.
        await page.get_by_role("button", name="As JSON").click()
        written = page.get_by_role("textbox", name="Arguments")
        changed = {**json.loads(await written.input_value()), "new_string": "two\nthree and a half"}
        await written.fill(json.dumps(changed))
        await decided(page, allow="Allow")
        await ended(page)
        await expect(page.get_by_text("A person has changed the arguments.")).to_have_count(1)
        assert await content_of(site, key) == BEFORE.replace("three", "three and a half")


@pytest.mark.long
async def test_a_change_is_read_on_a_phone(site: Site) -> None:
    require("bwrap", "socat")
    content = f"{'wide ' * 60}\n{'x' * 300}"
    site.model.script = workshop.calling(ToolUse("Write", {"file_path": PATH, "content": content}))
    async with site.visit(await site.key(), size=PHONE) as page:
        await send(page, "Write it", graph=workshop.EDITOR)
        await expect(page.get_by_role("group", name="Arguments").locator("ins")).to_have_count(2)
        await screenshot(page, "chat-change-phone")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await decided(page, allow="Deny")
        await ended(page)
