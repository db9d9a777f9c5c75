"""A person decides in a chat about a call of a run that another server has taken over meanwhile."""

import asyncio
from pathlib import Path

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office, settings
from tests.e2e.stories import OpenWorld
from tests.e2e.test_a_chat_of_the_ai_sdk import ARGS, V6, a_post, consent, parts_of, says, text_in
from tests.patience import PATIENCE_S

CHAT = "/v1/ai-sdk/messages:mailer/chat"


async def test_a_decision_about_a_lost_attempt_shows_what_the_next_one_requests(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    def respond(request: ApiRequest) -> Reply:
        return Reply([Text("Sent.")] if request.tool_results else [ToolUse(MAIL, ARGS)])

    chosen = {**settings(tmp_path, retry="true"), "RUNTALLY_DRAIN_S": 1, "RUNTALLY_LEASE_S": 5}
    async with open_world(respond, agent=MESSAGES, **chosen) as world:
        lost = parts_of(await world.http.post(CHAT, json=a_post(says("write")), headers=V6))
    run = f"/v1/runs/{lost[0]['messageId']}"
    async with open_world(respond, agent=MESSAGES, **chosen) as world:
        async with asyncio.timeout(PATIENCE_S):
            while (await world.http.get(run)).json()["attempt"] == 0:
                await asyncio.sleep(0.1)
        too_late = consent(lost, approved=True)
        again = parts_of(await world.http.post(CHAT, json=too_late, headers=V6))
        sent_without_consent = list(office().sent)
        allowed = await world.http.post(CHAT, json=consent(again, approved=True), headers=V6)
        late = await world.http.post(CHAT, json=too_late, headers=V6)

    assert [part["type"] for part in again if not part.get("transient")][-3:] == [
        *("tool-approval-request", "finish-step", "finish")
    ]
    assert sent_without_consent == []
    assert text_in(allowed) == "Sent."
    assert [part["type"] for part in parts_of(late) if part["type"].startswith("tool-")] == [
        *("tool-input-available", "tool-approval-request", "tool-output-available")
    ]
    assert office().sent == [("bob@example.org", "Hello Bob")]
