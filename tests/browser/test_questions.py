"""Questions of the agent on the chat page."""

import pytest
from playwright.async_api import expect

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.browser.site import ASKER, Site, accessibility_problems, screenshot
from tests.browser.test_chat_page import send

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_question_survives_a_reload_and_is_answered(site: Site) -> None:
    options = [{"label": f"{color}\u2066", "description": "<img src=x>\u202e"} for color in ("Red", "Blue")]
    which, header = "Which <b>color</b>\u202e?", "Color\u2067"
    color = {"question": which, "header": header, "options": options, "multiSelect": False}
    sizes = {"question": "Which sizes?", "header": "Sizes", "options": options, "multiSelect": True}
    site.model.script = in_turn(
        Reply([ToolUse("AskUserQuestion", {"questions": [color, sizes]})]),
        Reply([ToolUse("AskUserQuestion", {"questions": [color]})]),
        Reply([Text("So be it.")]),
    )
    async with site.visit(await site.key(), complaints=["status of 422"]) as page:
        await send(page, "Paint", graph=ASKER)
        await expect(page.get_by_text("Waiting for your answer")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("The agent asks:")).to_be_visible()
        await expect(page.locator(".question legend").first).to_have_text("Color Which <b>color</b>?")
        await screenshot(page, "chat-question")
        shown = await page.locator(".question").inner_text()
        assert await accessibility_problems(page) == []
        await page.get_by_role("checkbox", name="Red").check()
        await page.get_by_role("checkbox", name="Blue").check()
        await page.get_by_role("button", name="Answer", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("Color: ")
        await page.get_by_label("Another answer").first.fill("<i>green</i>")
        await page.get_by_role("button", name="Answer", exact=True).click()
        await expect(page.locator(".question-answer").first).to_have_text("<i>green</i>")
        await page.get_by_role("button", name="Decline to answer").click()
        await expect(page.get_by_text("Declined to answer.")).to_be_visible()
        # Followed, then as the history of the conversation has it.
        for _ in range(2):
            await expect(page.get_by_text("So be it.").first).to_be_visible()
            await expect(page.locator(".question-answer")).to_have_text(["<i>green</i>", "Red, Blue"])
            await expect(page.get_by_text("Declined to answer.")).to_be_visible()
            await expect(page.locator(".tool, .question b, .question i, .question img")).to_have_count(0)
            await page.reload()

    first, second = [str(request.tool_results) for request in site.world.simulator.requests[-2:]]
    assert not set(shown) & {"\u202e", "\u2066", "\u2067"}
    answered = f'"{which}"="<i>green</i>", "Which sizes?"="Red\u2066, Blue\u2066"'
    assert answered.encode("unicode_escape").decode() in first
    assert "declined" in second
