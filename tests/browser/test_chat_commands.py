"""What commands have put out, on the chat page of those who may see it."""

from dataclasses import replace

import pytest
from playwright.async_api import expect

from tests.browser.site import PHONE, Site, accessibility_problems, screenshot
from tests.browser.test_chat_files import KEEPER
from tests.browser.test_chat_page import ended, send
from tests.e2e import workshop
from tests.programs import require

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = "<img src=x onerror=alert(1)>"
HIDDEN = "Its result is visible to the model only."


async def test_the_output_of_a_command_is_shown_to_those_who_may_audit_and_others_are_told_why_not(
    site: Site,
) -> None:
    require("bwrap", "socat")
    site.model.script = workshop.calling(
        workshop.bash(f"echo '{HOSTILE}'; seq 1 6000"), workshop.bash("echo it broke >&2; exit 3")
    )
    auditor = await site.key()
    async with site.visit(auditor, size=PHONE) as page:
        await send(page, "Run it", graph=KEEPER)
        await ended(page)
        good, bad = page.locator(".tool").first, page.locator(".tool").last
        await good.locator("summary").click()
        await expect(page.get_by_role("group", name="Output")).to_have_count(0)
        await good.get_by_role("button", name="Show the output").click()
        await expect(good.get_by_role("heading", name="Output, exit code 0")).to_be_visible()
        await expect(good.get_by_role("group", name="Output")).to_contain_text(HOSTILE)
        await expect(good.get_by_role("button", name="Show more")).to_be_visible()
        await expect(good.locator("img")).to_have_count(0)
        await bad.locator("summary").click()
        await bad.get_by_role("button", name="Show the output").click()
        await expect(bad.get_by_role("heading", name="Output, exit code 3")).to_be_visible()
        await expect(bad.get_by_role("group", name="Output")).to_have_text("it broke")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await bad.scroll_into_view_if_needed()
        await screenshot(page, "chat-command-output")
        assert await accessibility_problems(page) == []
        await page.reload()
        await page.locator(".tool summary").last.click()
        await page.locator(".tool").last.get_by_role("button", name="Show the output").click()
        await expect(page.get_by_role("group", name="Output")).to_have_text("it broke")

    _, secret = await site.world.services.accounts.create_key(auditor.account, ["runs:read", "runs:write"])
    async with site.visit(replace(auditor, secret=secret), path=page.url) as page:
        await page.locator(".tool summary").first.click()
        await expect(page.get_by_text(HIDDEN).first).to_be_visible()
        await expect(page.get_by_role("button", name="Show the output")).to_have_count(0)
