"""The list of conversations, and a shared one, in a browser."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Page, expect

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.browser.site import ASSISTANT, PHONE, Key, Site, accessibility_problems, screenshot
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import CLOCK, a_client, a_request
from tests.integration.statements import execute

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = (1440, 900)
NAMES = ("herons", "cranes", "storks", "owls")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
AGES = (timedelta(), timedelta(days=1), timedelta(days=4), timedelta(days=40))
_AT = """
const Real = Date;
window.Date = class extends Real {
  constructor(...parts) { super(...(parts.length ? parts : [NOW])); }
  static now() { return NOW; }
};
"""
_OPEN_AT_ONCE = "button => { document.querySelector('.menu').hidePopover(); button.click(); }"
_WIDTH = "() => document.documentElement.scrollWidth"


def model(request: ApiRequest) -> Reply:
    if "time" in request.last_text and not request.tool_results:
        return Reply((Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})))
    return Reply(
        (Text("They **fly** at dawn, <img src=x onerror=alert(1)> as [a page](https://example.org) says."),)
    )


async def a_reader(site: Site, *scopes: str) -> Key:
    """A key whose account has conversations of several days."""
    site.model.script = model
    key = await site.key(*scopes)
    _, writer = await site.world.services.accounts.create_key(key.account, ["runs:write", "runs:read"])
    async with a_client(site.world.url, writer, agent=MESSAGES) as http:
        for name in reversed(NAMES):
            text = f"What do you know about {name}?"
            answer = await http.post("/v1/runs/wait", json=a_request(text, graphId=ASSISTANT, stateKey=name))
            assert answer.json()["ok"]
    account = await site.world.services.accounts.find_by_name(key.account)
    for name, age in zip(NAMES, AGES, strict=True):
        await execute(
            site.world.services.database,
            "UPDATE sessions SET updated_at = :at WHERE account_id = :id AND state_key = :key",
            at=NOW - age,
            id=account.id,
            key=name,
        )
    return key


async def choose(page: Page, name: str, action: str) -> None:
    """Open the menu of a conversation by keyboard, and choose an action."""
    await page.get_by_role("button", name=re.compile(f"Actions for .*{name}")).focus()
    await page.keyboard.press("Enter")
    menu = page.get_by_role("group", name=re.compile(f"Actions for .*{name}"))
    await menu.get_by_text(action, exact=True).click()
    await expect(menu).to_have_count(0)


async def groups(page: Page) -> dict[str, list[str]]:
    """The titles in the list, by group."""
    found: dict[str, list[str]] = {}
    sections = page.get_by_role("navigation", name="Conversations").locator("section")
    for section in await sections.all():
        title = await section.get_by_role("heading").inner_text()
        found[title] = await section.locator(".sidebar-title").all_inner_texts()
    return found


def about(*names: str) -> list[str]:
    return [f"What do you know about {name}?" for name in names]


async def test_conversations_are_grouped_renamed_pinned_and_archived(site: Site) -> None:
    script = _AT.replace("NOW", str(int(NOW.timestamp() * 1000)))
    async with site.visit(await a_reader(site), size=WIDE, script=script) as page:
        conversations = page.get_by_role("navigation", name="Conversations")
        await expect(conversations.get_by_role("link", name="owls")).to_be_visible()
        assert await groups(page) == {
            "Today": about("herons"),
            "Yesterday": about("cranes"),
            "Previous 7 days": about("storks"),
            "Older": about("owls"),
        }
        await page.get_by_role("button", name=re.compile("Actions for .*owls")).click()
        await screenshot(page, "conversations-menu")
        assert await accessibility_problems(page) == []
        await page.keyboard.press("Escape")
        await choose(page, "owls", "Pin")
        await expect(conversations.get_by_role("heading", name="Pinned")).to_be_visible()
        assert (await groups(page))["Pinned"] == about("owls")

        await conversations.get_by_role("link", name="storks").click()
        await choose(page, "storks", "Rename")
        field = conversations.get_by_label("Title")
        await expect(field).to_be_focused()
        await field.fill("Something else")
        await page.keyboard.press("Escape")
        await expect(conversations.get_by_role("link", name="storks")).to_be_visible()
        await choose(page, "storks", "Rename")
        await field.fill("Birds with <b>red</b> bills")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Birds with <b>red</b> bills")).to_be_visible()
        await expect(conversations.get_by_role("link", name="Birds with <b>")).to_be_visible()

        await choose(page, "cranes", "Archive")
        await expect(conversations.get_by_role("link", name="cranes")).to_have_count(0)
        await conversations.get_by_role("button", name="Archive").click()
        await expect(conversations.get_by_role("link")).to_have_count(2)
        await expect(conversations.get_by_role("link", name="cranes")).to_be_visible()
        await screenshot(page, "conversations-archive")
        await choose(page, "cranes", "Move out of the archive")
        await expect(conversations.get_by_text("Nothing is archived.")).to_be_visible()
        await conversations.get_by_role("button", name="Archive").click()
        await expect(conversations.get_by_role("link", name="cranes")).to_be_visible()


async def test_a_menu_that_is_opened_before_the_browser_tells_of_the_last_one_stays(site: Site) -> None:
    async with site.visit(await a_reader(site), size=WIDE) as page:
        for then in ("owls", "herons"):
            await page.get_by_role("button", name=re.compile("Actions for .*owls")).click()
            await expect(page.get_by_role("group", name=re.compile("Actions for .*owls"))).to_be_visible()
            await page.get_by_role("button", name=re.compile(f"Actions for .*{then}")).evaluate(_OPEN_AT_ONCE)
            menu = page.get_by_role("group", name=re.compile(f"Actions for .*{then}"))
            await menu.get_by_text("Pin", exact=True).click()
            await expect(menu).to_have_count(0)
            pinned = page.locator("section", has=page.get_by_role("heading", name="Pinned"))
            await expect(pinned.locator(".sidebar-title", has_text=then)).to_be_visible()


async def test_conversations_are_exported_found_and_deleted(site: Site) -> None:
    async with site.visit(await a_reader(site), size=WIDE) as page:
        contents = {}
        for form in ("Markdown", "JSON"):
            async with page.expect_download() as downloading:
                await choose(page, "herons", f"Export as {form}")
            download = await downloading.value
            contents[download.suggested_filename] = (await download.path()).read_text("utf-8")
        assert contents.keys() == {"conversation.md", "conversation.json"}
        assert contents["conversation.md"].startswith("# What do you know about herons?")

        conversations = page.get_by_role("navigation", name="Conversations")
        await conversations.get_by_role("searchbox").fill("herons")
        await expect(conversations.get_by_role("heading", name="Found")).to_be_visible()
        assert await groups(page) == {"Found": about("herons")}
        await conversations.get_by_role("searchbox").fill("albatross")
        await expect(conversations.get_by_text("Nothing is found.")).to_be_visible()
        await conversations.get_by_role("searchbox").fill("")
        await expect(conversations.get_by_role("link", name="herons")).to_be_visible()

        await choose(page, "herons", "Delete…")
        dialog = page.get_by_role("dialog", name="Delete this conversation?")
        await dialog.get_by_role("button", name="Keep it").click()
        await choose(page, "herons", "Delete…")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(conversations.get_by_role("link", name="herons")).to_have_count(0)
        await expect(conversations.get_by_role("link", name="owls")).to_be_visible()


async def test_a_conversation_is_shared_and_the_link_revoked(site: Site) -> None:
    key = await a_reader(site)
    async with site.visit(key, size=WIDE, complaints=["status of 401"]) as page:
        dialog = page.get_by_role("dialog", name="Share “What do you know about herons?”")
        await choose(page, "herons", "Share…")
        await dialog.get_by_role("button", name="Create a link").click()
        await dialog.get_by_role("button", name="Revoke").click()
        await expect(dialog.get_by_role("button", name="Revoke")).to_have_count(0)
        await expect(dialog.get_by_label("The link, which is shown only now")).to_have_count(0)
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)

        await choose(page, "herons", "Share…")
        await dialog.get_by_label("The link works for").select_option("A year")
        await dialog.get_by_role("button", name="Create a link").click()
        url = await dialog.get_by_label("The link, which is shown only now").input_value()
        await expect(dialog.get_by_text("Links that work")).to_be_visible()
        await screenshot(page, "share-dialog")
        assert await accessibility_problems(page) == []
        async with await page.context.new_page() as other:
            await page.context.clear_cookies()
            await other.goto(url)
            await expect(other.get_by_role("heading", name="What do you know about herons?")).to_be_visible()
            await expect(other.locator("strong", has_text="fly")).to_be_visible()
            assert await other.locator("img").count() == 1
            await screenshot(other, "shared")
            assert await accessibility_problems(other) == []
        # Without a session the dialog cannot revoke it any more.
        account = (await site.world.services.accounts.find_by_name(key.account)).id
        await execute(
            site.world.services.database,
            "DELETE FROM conversation_shares WHERE account_id = :id",
            id=account,
        )
        await page.goto(url)
        await expect(page.get_by_role("alert")).to_contain_text("This link shows nothing")
        await screenshot(page, "shared-ended")
        assert await accessibility_problems(page) == []


async def test_only_what_a_key_may_is_offered(site: Site) -> None:
    async with site.visit(await a_reader(site, "runs:read")) as page:
        await page.get_by_role("button", name=re.compile("Actions for .*owls")).click()
        menu = page.get_by_role("group", name=re.compile("Actions for .*owls"))

        await expect(menu.get_by_role("link")).to_have_count(2)
        await expect(menu.get_by_role("button")).to_have_count(0)


@pytest.mark.long
async def test_the_list_and_a_shared_conversation_fit_a_phone_in_dark_mode(site: Site) -> None:
    key = await a_reader(site)
    _, writer = await site.world.services.accounts.create_key(key.account, ["runs:write", "runs:read"])
    async with a_client(site.world.url, writer, agent=MESSAGES) as http:
        asked = a_request("What time do clocks show?", graphId=ASSISTANT, stateKey="clocks")
        (await http.post("/v1/runs/wait", json=asked)).raise_for_status()
    async with site.visit(key, size=PHONE, dark=True) as page:
        await page.get_by_role("button", name="Conversations", exact=True).click()
        await expect(page.get_by_role("link", name="owls")).to_be_visible()
        await choose(page, "owls", "Pin")
        await expect(page.get_by_role("heading", name="Pinned")).to_be_visible()
        await page.get_by_role("button", name=re.compile("Actions for .*herons")).click()
        await screenshot(page, "conversations-phone-dark")
        assert await accessibility_problems(page) == []
        await page.keyboard.press("Escape")
        await choose(page, "clocks", "Share…")
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Also show tool calls").check()
        await dialog.get_by_role("button", name="Create a link").click()
        url = await dialog.get_by_label("The link, which is shown only now").input_value()
        await screenshot(page, "share-dialog-phone-dark")
        assert await accessibility_problems(page) == []
        await page.goto(url)
        await page.get_by_text("get current time").click()
        await expect(page.get_by_role("group", name="Arguments")).to_contain_text("Asia/Tokyo")
        await expect(page.get_by_role("group", name="Result")).to_contain_text("+09:00")
        await screenshot(page, "shared-phone-dark")
        assert await accessibility_problems(page) == []
        width: Any = await page.evaluate(_WIDTH)
        assert width <= PHONE[0]
