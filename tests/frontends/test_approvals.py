"""A tool call waits for a person, in the approvals of each frontend."""

import pytest

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.e2e.office import MAIL, office
from tests.e2e.stories import until
from tests.frontends.frontend import (
    ASSISTANT_UI_AG_UI,
    COPILOT_KIT,
    MAILER,
    USE_CHAT_6,
    Client,
    Frontends,
    name_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

CLIENTS = [USE_CHAT_6, ASSISTANT_UI_AG_UI, COPILOT_KIT]


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
async def test_a_person_approves_a_call_and_denies_another(frontends: Frontends, client: Client) -> None:
    to_bob, to_eve = f"bob-{client.page}@example.org", f"eve-{client.page}@example.org"
    script = in_turn(
        Reply([ToolUse(MAIL, {"to": to_bob, "text": "Hi"})]),
        Reply([ToolUse(MAIL, {"to": to_eve, "text": "Hi"})]),
        Reply([Text("One mail was sent.")]),
    )
    # Requests of `ai` 5, which has no approvals, and of later releases are the same without this header.
    async with frontends.visit(client, script, graph=MAILER, release="6") as frontend:
        await frontend.send("Write to Bob and Eve.")
        await frontend.press("Approve")
        # The buttons of the first call are gone once the model has got its result.
        await until(lambda: len(frontend.received.requests) == 2)
        await frontend.press("Deny")
        await frontend.shows("Write to Bob and Eve.", "One mail was sent.")

        assert (to_bob, "Hi") in office().sent
        assert to_eve not in [to for to, _ in office().sent]
        assert await frontend.billed() == frontend.received.tokens == (30, 60)
