"""Other people's chat pages, in a browser: messages, tools, reloading."""

import pytest
from playwright.async_api import expect

from app.simulator.script import Hold, Reply, Text, Thinking, ToolUse, in_turn
from tests.e2e.stories import CLOCK
from tests.frontends.frontend import (
    ASSISTANT_UI_AG_UI,
    ASSISTANT_UI_AI_SDK,
    COPILOT_KIT,
    THINKER,
    USE_CHAT,
    USE_CHAT_5,
    WITH_CLI,
    Client,
    Frontends,
    name_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

CLIENTS = [USE_CHAT, USE_CHAT_5, ASSISTANT_UI_AI_SDK, ASSISTANT_UI_AG_UI, COPILOT_KIT]


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
async def test_answers_stream_into_the_page_and_the_next_message_follows_them(
    frontends: Frontends, client: Client
) -> None:
    hold = Hold(index=6)
    script = in_turn(
        Reply([ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})]),
        Reply([Text("It is ten to twelve.")], hold=hold),
        Reply([Text("You are welcome.")]),
    )
    async with frontends.visit(client, script) as frontend:
        await frontend.send("What time is it?")
        await hold.reached.wait()
        await expect(frontend.page.locator(client.texts).nth(1)).to_contain_text("It is ten")
        await frontend.shows_tools("core__get_current_time")
        hold.until.set()
        await frontend.shows("What time is it?", "It is ten to twelve.")
        await frontend.shows_tools("Asia/Tokyo")
        await frontend.send("Thank you.")
        await frontend.shows("What time is it?", "It is ten to twelve.", "Thank you.", "You are welcome.")

        assert frontend.received.conversation() == [
            ("user", "What time is it?"),
            ("assistant", "It is ten to twelve."),
            ("user", "Thank you."),
        ]
        assert await frontend.billed() == frontend.received.tokens == (30, 60)


async def test_a_page_that_is_reloaded_resumes_the_answer_and_one_that_is_closed_cancels_it(
    frontends: Frontends,
) -> None:
    held, left = Hold(index=6), Hold(index=6)
    options = {"resume": "yes", "leave": "cancel"}
    script = in_turn(Reply([Text("one two three four five")], hold=held))
    async with frontends.visit(USE_CHAT, script, **options) as reloaded:
        await reloaded.send("Count.")
        await held.reached.wait()
        await reloaded.page.reload()
        await expect(reloaded.page.locator(USE_CHAT.texts)).to_contain_text(["one two"])

        script = in_turn(Reply([Text("one two three four five")], hold=left))
        async with frontends.visit(USE_CHAT, script, **options) as closed:
            await closed.send("Count.")
            await left.reached.wait()
            await closed.page.close()
            # The input that the provider has reported, and the output that has arrived.
            assert await closed.billed() == (10, 3)
            assert await closed.statuses() == ["cancelled"]

        # This run was left earlier, so it would have been cancelled by now.
        held.until.set()
        await reloaded.shows("one two three four five")
        assert len(reloaded.received.requests) == 1
        assert await reloaded.billed() == (10, 20)
        assert await reloaded.statuses() == ["succeeded"]


@pytest.mark.parametrize("client", [COPILOT_KIT], ids=name_of)
async def test_answers_of_the_cli_are_shown(frontends: Frontends, client: Client) -> None:
    script = in_turn(Reply([ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})]), Reply([Text("Ten to twelve.")]))
    async with frontends.visit(client, script, graph=WITH_CLI) as frontend:
        await frontend.send("What time is it?")
        await frontend.shows("What time is it?", "Ten to twelve.")
        await frontend.shows_tools("Asia/Tokyo")
        assert await frontend.billed() == (20, 40)


@pytest.mark.parametrize("client", [ASSISTANT_UI_AG_UI, COPILOT_KIT], ids=name_of)
async def test_thinking_is_shown_in_each_answer(frontends: Frontends, client: Client) -> None:
    script = in_turn(
        Reply([Thinking("The sum of both."), Text("Twelve.")]),
        Reply([Thinking("Twice twelve."), Text("Twenty-four.")]),
    )
    async with frontends.visit(client, script, graph=THINKER) as frontend:
        await frontend.send("Add five and seven.")
        await frontend.shows("Add five and seven.", "Twelve.")
        await expect(frontend.page.get_by_text("The sum of both.")).to_have_count(1)
        await frontend.send("Double it.")
        await expect(frontend.page.get_by_text("Twice twelve.")).to_have_count(1)
        await expect(frontend.page.locator(client.texts).last).to_have_text("Twenty-four.")
