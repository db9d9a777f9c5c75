"""Regenerating an answer and editing a message: the model receives what the screen shows."""

import pytest
from playwright.async_api import expect

from app.simulator.script import Reply, Text, in_turn
from tests.frontends.frontend import (
    ASSISTANT_UI_AG_UI,
    ASSISTANT_UI_AI_SDK,
    USE_CHAT,
    Client,
    Frontends,
    name_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

CLIENTS = [USE_CHAT, ASSISTANT_UI_AI_SDK, ASSISTANT_UI_AG_UI]


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
async def test_a_regenerated_answer_replaces_the_first_one(frontends: Frontends, client: Client) -> None:
    script = in_turn(*(Reply([Text(text)]) for text in ("Heads.", "Tails.", "Edge.", "It was edge.")))
    async with frontends.visit(client, script) as frontend:
        await frontend.send("Toss a coin.")
        await frontend.shows("Toss a coin.", "Heads.")
        for answer in ("Tails.", "Edge."):
            await frontend.press("Regenerate")
            await frontend.shows("Toss a coin.", answer)
            assert frontend.received.conversation() == [("user", "Toss a coin.")]
        await frontend.send("Which?")
        await frontend.shows("Toss a coin.", "Edge.", "Which?", "It was edge.")

        await frontend.model_received_the_screen()
        assert await frontend.billed() == frontend.received.tokens == (40, 80)


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
async def test_after_an_edit_the_model_knows_the_edited_message_only(
    frontends: Frontends, client: Client
) -> None:
    script = in_turn(
        *(Reply([Text(text)]) for text in ("Noted.", "It is blue.", "Noted again.", "It is red."))
    )
    async with frontends.visit(client, script) as frontend:
        await frontend.send("My colour is BLUE.")
        await frontend.shows("My colour is BLUE.", "Noted.")
        await frontend.send("Which is it?")
        await frontend.shows("My colour is BLUE.", "Noted.", "Which is it?", "It is blue.")
        await frontend.edit("My colour is RED.", which=0)
        await frontend.shows("My colour is RED.", "Noted again.")
        assert frontend.received.conversation() == [("user", "My colour is RED.")]
        await frontend.send("And now?")
        await frontend.shows("My colour is RED.", "Noted again.", "And now?", "It is red.")

        await frontend.model_received_the_screen()
        assert await frontend.billed() == frontend.received.tokens == (40, 80)


@pytest.mark.parametrize("client", [ASSISTANT_UI_AI_SDK, ASSISTANT_UI_AG_UI], ids=name_of)
async def test_a_person_returns_to_an_earlier_answer_and_goes_on(
    frontends: Frontends, client: Client
) -> None:
    script = in_turn(*(Reply([Text(text)]) for text in ("Heads.", "Tails.", "It was heads.")))
    async with frontends.visit(client, script) as frontend:
        await frontend.send("Toss a coin.")
        await frontend.shows("Toss a coin.", "Heads.")
        await frontend.press("Regenerate")
        await frontend.shows("Toss a coin.", "Tails.")
        await expect(frontend.page.get_by_text("2/2")).to_be_visible()
        await frontend.press("Previous")
        await frontend.shows("Toss a coin.", "Heads.")
        await frontend.send("Which?")
        await frontend.shows("Toss a coin.", "Heads.", "Which?", "It was heads.")

        await frontend.model_received_the_screen()
        assert await frontend.billed() == frontend.received.tokens == (30, 60)
