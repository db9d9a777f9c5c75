"""The provider's own client for Node, unmodified, at our sessions: only its base URL and key are set."""

import json
from pathlib import Path

import pytest

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.clients.node import node
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, WorldOf
from tests.e2e.test_a_client_brings_tools import PICK

pytestmark = pytest.mark.long


async def test_a_session_with_a_custom_tool_and_an_approval(world_of: WorldOf, tmp_path: Path) -> None:
    mail = {"to": "bob@example.org", "text": "blue"}
    script = in_turn(
        *(Reply([ToolUse(PICK, {"about": "sky"})]), Reply([ToolUse(MAIL, mail)]), Reply([Text("Written.")])),
        Reply([Text("Nothing.")]),
    )
    settings = office_settings(tmp_path, client_tools="true")
    world = await world_of(script, agent=MESSAGES, **settings)

    found = json.loads(await node("managed_agents.mjs", world.url, KEY, f"{MESSAGES}:mailer"))

    assert f"{MESSAGES}:mailer" in found["listed"]
    assert found["types"] == [
        *("user.message", "session.status_running", "agent.custom_tool_use", "session.status_idle"),
        *("user.custom_tool_result", "session.status_running", "agent.mcp_tool_use", "session.status_idle"),
        *("user.tool_confirmation", "session.status_running", "agent.mcp_tool_result", "agent.message"),
        *("span.model_request_start", "span.model_request_end") * 3,
        *("session.usage", "session.status_idle"),
    ]
    assert found["is_whole"]
    assert (found["title"], found["status"]) == ("Colors", "idle")
    assert found["refused"] == [True, 404, "not_found_error"]
    assert office().sent == [("bob@example.org", "blue")]
    assert "it is blue" in str(world.simulator.requests[1].tool_results)
    begun, run = (await world.http.get("/v1/runs")).json()["items"]
    assert found["begun"] == [begun["stateKey"], "manual", found["deployment"]]
    assert found["upcoming"] == 5
    receipts = await world.receipts(run["runId"])
    assert (run["stateKey"], len(receipts)) == (found["id"], 3)
    assert found["usage"]["output_tokens"] == sum(each["outputTokens"] for each in receipts) > 0
