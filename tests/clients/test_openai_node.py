"""OpenAI's own client for Node, unmodified."""

import json
from pathlib import Path

import pytest

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.clients.node import node
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import KEY, WorldOf
from tests.e2e.test_a_client_brings_tools import PICK, settings

pytestmark = pytest.mark.long


async def test_a_chat_and_a_response_go_on_with_results_of_functions(
    world_of: WorldOf, tmp_path: Path
) -> None:
    replies = [Reply([ToolUse(PICK, {"about": "sky"})]), Reply([Text("Blue.")])]
    world = await world_of(in_turn(*replies, *replies), agent=MESSAGES, **settings(tmp_path))

    found = json.loads(await node("openai.mjs", world.url, KEY, f"{MESSAGES}:helper"))

    items = found.pop("items")
    assert found == {"called": ["pick_color"] * 2, "answered": ["Blue."] * 3, "usage": True}
    assert items == [["message", "function_call", "function_call_output", "message"], ["blue"]]
    runs = (await world.http.get("/v1/runs")).json()["items"]
    assert [run["status"] for run in runs] == ["succeeded"] * 2
    assert [len(await world.receipts(run["runId"])) for run in runs] == [2, 2]
