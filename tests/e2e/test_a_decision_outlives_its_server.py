"""A person decides in a chat about a call of a run whose server has been stopped meanwhile."""

import asyncio
import json
from pathlib import Path

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office, settings
from tests.e2e.stories import OpenWorld
from tests.e2e.test_a_chat_of_the_ai_sdk import ARGS, V6, a_post, consent, parts_of, says, text_in
from tests.e2e.workshop import EDITOR, bash
from tests.e2e.workshop import settings as workshop_settings
from tests.patience import PATIENCE_S
from tests.programs import require

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


async def test_a_decision_about_a_lost_attempt_shows_what_the_next_one_requests(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    """A run with files of its own waits in its process, and is handed over instead of parked."""
    require("bwrap", "socat")
    chat, lines = f"/v1/ai-sdk/{EDITOR}/chat", ("approve: [Bash]", "retry: true")

    def respond(request: ApiRequest) -> Reply:
        done = any("was-run" in json.dumps(result) for result in request.tool_results)
        return Reply([Text("Done.") if done else bash("printf was-; printf run")])

    chosen = workshop_settings(tmp_path, *lines, tools="[Bash]", RUNTALLY_DRAIN_S=1, RUNTALLY_LEASE_S=5)
    async with open_world(respond, **chosen) as world:
        lost = parts_of(await world.http.post(chat, json=a_post(says("write")), headers=V6))
    run = f"/v1/runs/{lost[0]['messageId']}"
    async with open_world(respond, **chosen) as world:
        async with asyncio.timeout(PATIENCE_S):
            while (await world.http.get(run)).json()["attempt"] == 0:
                await asyncio.sleep(0.1)
        too_late = consent(lost, approved=True)
        again = parts_of(await world.http.post(chat, json=too_late, headers=V6))
        results = [result for request in world.simulator.requests for result in request.tool_results]
        allowed = await world.http.post(chat, json=consent(again, approved=True), headers=V6)
        late = parts_of(await world.http.post(chat, json=too_late, headers=V6))

    assert [part["type"] for part in again if not part.get("transient")][-3:] == [
        *("tool-approval-request", "finish-step", "finish")
    ]
    assert "was-run" not in json.dumps(results)
    assert text_in(allowed) == "Done."
    assert [part["type"] for part in late if part["type"].startswith("tool-")] == [
        *("tool-input-available", "tool-approval-request", "tool-output-available")
    ]
