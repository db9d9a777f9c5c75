"""A person decides in a chat about a call of a run whose server has been stopped meanwhile."""

from pathlib import Path

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office, settings
from tests.e2e.stories import OpenWorld
from tests.e2e.test_a_chat_of_the_ai_sdk import ARGS, V6, a_post, consent, parts_of, says, text_in

CHAT = "/v1/ai-sdk/messages:mailer/chat"


async def test_a_decision_counts_on_the_next_server(open_world: OpenWorld, tmp_path: Path) -> None:
    def respond(request: ApiRequest) -> Reply:
        return Reply([Text("Sent.")] if request.tool_results else [ToolUse(MAIL, ARGS)])

    chosen = {**settings(tmp_path), "RUNTALLY_DRAIN_S": 1}
    async with open_world(respond, agent=MESSAGES, **chosen) as world:
        asked = parts_of(await world.http.post(CHAT, json=a_post(says("write")), headers=V6))
        before = list(office().sent)
    run = f"/v1/runs/{asked[0]['messageId']}"
    async with open_world(respond, agent=MESSAGES, **chosen) as world:
        status = (await world.http.get(run)).json()["status"]
        allowed = await world.http.post(CHAT, json=consent(asked, approved=True), headers=V6)
        again = await world.http.post(CHAT, json=consent(asked, approved=True), headers=V6)

    assert (before, status) == ([], "waiting")
    assert text_in(allowed) == text_in(again) == "Sent."
    assert [part["type"] for part in parts_of(allowed) if part["type"].startswith("tool-")] == [
        "tool-output-available"
    ]
    assert office().sent == [("bob@example.org", "Hello Bob")]
