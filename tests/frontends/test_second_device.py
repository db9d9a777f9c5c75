"""A conversation is read by another device, which then goes on with it."""

import pytest

from app.simulator.script import Reply, Text, in_turn
from tests.frontends.frontend import ASSISTANT_UI_AG_UI, USE_CHAT, Client, Frontends, name_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]


@pytest.mark.parametrize("client", [USE_CHAT, ASSISTANT_UI_AG_UI], ids=name_of)
async def test_a_second_device_shows_the_conversation_and_continues_it(
    frontends: Frontends, client: Client
) -> None:
    script = in_turn(Reply([Text("Noted.")]), Reply([Text("It is blue.")]))
    async with frontends.visit(client, script) as frontend:
        await frontend.send("My colour is BLUE.")
        await frontend.shows("My colour is BLUE.", "Noted.")
        async with frontends.second_device(frontend) as other:
            await other.shows("My colour is BLUE.", "Noted.")
            await other.send("Which is it?")
            await other.shows("My colour is BLUE.", "Noted.", "Which is it?", "It is blue.")

            await other.model_received_the_screen()
            assert await other.billed() == other.received.tokens == (20, 40)
