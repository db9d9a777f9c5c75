"""The clients that the authors of MCP publish for tasks, unmodified, in both revisions that have them."""

import json
from pathlib import Path

import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse
from tests.clients.node import node
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, WorldOf


@pytest.mark.parametrize("mode", ["auto", "legacy", "older"])
async def test_a_task_is_approved_and_another_is_cancelled(
    world_of: WorldOf, tmp_path: Path, mode: str
) -> None:
    def respond(request: ApiRequest) -> Reply:
        if request.last_text == "never mind":
            return Reply([Text("done")], hold=Hold(0))
        if request.tool_results:
            return Reply([Text("Sent.")])
        return Reply([ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])

    world = await world_of(respond, agent=MESSAGES, **office_settings(tmp_path))

    found = json.loads(await node("mcp_tasks.mjs", world.url, KEY, f"{MESSAGES}__mailer", mode))

    (form,) = found["forms"]
    assert "office__send_mail" in form
    assert (found["text"], found["unknown"]) == ("Sent.", -32602)
    assert office().sent == [("a@example.org", "hi")]
    ends = [(await world.ended(found[name]))["status"] for name in ("task", "stopped")]
    assert ends == ["succeeded", "cancelled"]
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 2
    assert len(await world.receipts(found["task"])) == 2
    if mode == "older":
        assert found["listed"] == [[found["stopped"], "cancelled"], [found["task"], "completed"]]
