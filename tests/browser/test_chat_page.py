"""The chat page, as a person uses it."""

import pytest
from playwright.async_api import expect

from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.browser.site import PHONE, Site, accessibility_problems, screenshot
from tests.e2e.stories import CLOCK

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_asks_and_watches_the_answer_come(site: Site) -> None:
    hold = Hold(index=8)
    site.model.script = in_turn(
        Reply([Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})]),
        Reply([Text("It is **ten to twelve** in Tokyo, and time for tea.")], hold=hold),
    )
    async with site.visit(await site.key()) as page:
        await page.get_by_label("Graph").select_option("claude_agents:assistant")
        await expect(page.get_by_role("heading", name="New conversation")).to_be_visible()
        await screenshot(page, "chat-empty")
        await page.get_by_label("Message").fill("What time is it in Tokyo?")
        await page.keyboard.press("Enter")
        await hold.reached.wait()
        await expect(page.get_by_text("It is ten")).to_be_visible()
        await screenshot(page, "chat-streaming")
        hold.until.set()
        await expect(page.get_by_text("time for tea.").first).to_be_visible()
        await expect(page.get_by_text("Fork from here")).to_be_visible()
        await expect(page.get_by_text("Cost")).to_be_visible()
        await page.get_by_text("get current time").click()
        await screenshot(page, "chat-answer")
        assert await accessibility_problems(page) == []
