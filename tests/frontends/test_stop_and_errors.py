"""A conversation goes on after Stop and after errors, and the model receives what the screen shows."""

import pytest
from playwright.async_api import expect

from app.simulator.script import Hold, HttpError, Reply, Text, ToolUse, in_turn
from tests.e2e.stories import CLOCK
from tests.frontends.frontend import (
    AG_UI,
    ASSISTANT_UI_AI_SDK,
    USE_CHAT,
    USE_CHAT_5,
    USE_CHAT_6,
    Client,
    Frontend,
    Frontends,
    name_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

CLIENTS = [ASSISTANT_UI_AI_SDK, *AG_UI]


async def goes_on(frontend: Frontend, *, messages: int) -> None:
    """Send a message, and wait for its answer, which the script has."""
    await frontend.send("Go on.")
    texts = frontend.page.locator(frontend.client.texts)
    await expect(texts.last).to_have_text("Here I am.")
    assert len(frontend.received.requests) == messages


@pytest.mark.parametrize("client", AG_UI, ids=name_of)
async def test_a_conversation_goes_on_after_stop(frontends: Frontends, client: Client) -> None:
    hold = Hold(index=6)
    script = in_turn(Reply([Text("one two three four five")], hold=hold), Reply([Text("Here I am.")]))
    async with frontends.visit(client, script) as frontend:
        await frontend.send("Count.")
        await hold.reached.wait()
        await expect(frontend.page.locator(client.texts).nth(1)).to_contain_text("one two")
        await frontend.stop()
        hold.until.set()
        # The answer goes on without its reader; then the next message finds it complete.
        (run,) = (await frontend.http.get("/v1/runs")).json()["items"]
        await frontend.ended(run["runId"])
        await goes_on(frontend, messages=2)

        await frontend.model_received_the_screen()
        assert await frontend.billed() == frontend.received.tokens == (20, 40)


@pytest.mark.parametrize("client", [USE_CHAT, USE_CHAT_6, USE_CHAT_5, ASSISTANT_UI_AI_SDK], ids=name_of)
async def test_the_model_gets_what_a_stopped_answer_shows(frontends: Frontends, client: Client) -> None:
    hold = Hold(index=6)
    script = in_turn(Reply([Text("one two three four five")], hold=hold), Reply([Text("Here I am.")]))
    async with frontends.visit(client, script) as frontend:
        await frontend.send("Count.")
        await hold.reached.wait()
        await expect(frontend.page.locator(client.texts).nth(1)).to_contain_text("one two")
        await frontend.stop()
        await frontend.send("Go on.")
        hold.until.set()
        await expect(frontend.page.locator(client.texts).last).to_have_text("Here I am.")

        assert "five" not in await frontend.screen()
        await frontend.model_received_the_screen()
        assert await frontend.billed() == frontend.received.tokens == (20, 40)


@pytest.mark.parametrize("client", AG_UI, ids=name_of)
async def test_an_answer_that_came_after_stop_takes_its_place(frontends: Frontends, client: Client) -> None:
    hold = Hold(index=0)
    script = in_turn(Reply([Text("one two three")], hold=hold), Reply([Text("Here I am.")]))
    async with frontends.visit(client, script) as frontend:
        await frontend.send("Count.")
        await hold.reached.wait()
        await frontend.stop()
        hold.until.set()
        (run,) = (await frontend.http.get("/v1/runs")).json()["items"]
        await frontend.ended(run["runId"])
        await goes_on(frontend, messages=2)

        await frontend.shows("Count.", "one two three", "Go on.", "Here I am.")
        await frontend.model_received_the_screen()


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
async def test_a_conversation_goes_on_after_an_error_that_followed_some_text(
    frontends: Frontends, client: Client
) -> None:
    script = in_turn(
        Reply([Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})]),
        HttpError(400, "invalid_request_error"),
        Reply([Text("Here I am.")]),
    )
    async with frontends.visit(client, script) as frontend:
        await frontend.send("What time is it?")
        await frontend.shows("What time is it?", "Let me look.")
        await expect(frontend.page.locator(client.errors)).to_be_visible()
        await goes_on(frontend, messages=3)

        await frontend.model_received_the_screen()
        assert await frontend.billed() == frontend.received.tokens == (20, 40)


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
async def test_a_conversation_goes_on_after_an_error_without_text(
    frontends: Frontends, client: Client
) -> None:
    script = in_turn(HttpError(400, "invalid_request_error"), Reply([Text("Here I am.")]))
    async with frontends.visit(client, script) as frontend:
        await frontend.send("Count.")
        await expect(frontend.page.locator(client.errors)).to_be_visible()
        await goes_on(frontend, messages=2)

        await frontend.model_received_the_screen()
        assert await frontend.billed() == (10, 20)


async def test_a_failed_answer_is_regenerated(frontends: Frontends) -> None:
    script = in_turn(HttpError(400, "invalid_request_error"), Reply([Text("Here I am.")]))
    async with frontends.visit(ASSISTANT_UI_AI_SDK, script) as frontend:
        await frontend.send("Count.")
        await expect(frontend.page.locator(ASSISTANT_UI_AI_SDK.errors)).to_be_visible()
        await frontend.press("Regenerate")
        await frontend.shows("Count.", "Here I am.")

        await frontend.model_received_the_screen()
        assert await frontend.billed() == (10, 20)
