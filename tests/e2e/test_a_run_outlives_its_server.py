"""Runs that go on in another process, and those that cannot."""

import asyncio
from pathlib import Path

import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, text_of
from app.simulator.server import Simulator
from tests.e2e.agents import CLAUDE, MESSAGES, named
from tests.e2e.office import TASK, WORKER, office, settings
from tests.e2e.servers import a_server
from tests.e2e.stories import World, WorldOf, a_request, until
from tests.e2e.test_a_client_brings_tools import answer, waiting
from tests.patience import PATIENCE_S, until_shown

PICK = "client-pick"
PICKER = "---\ndescription: Picks.\nretry: true\nclient_tools: true\n---\nPick.\n"
LEASE_S = 5


@pytest.mark.parametrize("agent", [CLAUDE, pytest.param(MESSAGES, marks=pytest.mark.long)])
async def test_another_process_ends_the_runs_of_a_killed_one_or_goes_on_with_them(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str, agent: str
) -> None:
    hold = Hold(index=5)

    def respond(request: ApiRequest) -> Reply:
        if "pick" in text_of(request.messages[0]["content"]):
            return Reply([Text("Blue.")] if "blue" in str(request.tool_results) else [ToolUse(PICK)])
        if "tell" in request.last_text:
            return Reply([Text("one two three four")], hold=hold)
        if len(request.messages) == 1:
            return Reply([Text("At work."), ToolUse(TASK)])
        return Reply([Text("Finished.")])

    graphs = settings(tmp_path)
    (graphs["RUNTALLY_GRAPHS_DIR"] / "picker.md").write_text(PICKER)
    (tmp_path / "killed").mkdir()
    async with Simulator(named(agent, respond)) as simulator:
        shared = {"ANTHROPIC_BASE_URL": simulator.url, "REDIS_URL": redis_url}
        world = await world_of(
            respond, **graphs, **shared, ANTHROPIC_API_KEY="sk-test", RUNTALLY_LEASE_S=LEASE_S
        )
        async with a_server(
            tmp_path / "killed",
            simulator.url,
            agent=agent,
            DATABASE_URL=database_url,
            REDIS_URL=redis_url,
            RUNTALLY_LEASE_S=str(LEASE_S),
            RUNTALLY_TOOLS=graphs["RUNTALLY_TOOLS"],
            RUNTALLY_GRAPHS_DIR=str(graphs["RUNTALLY_GRAPHS_DIR"]),
        ) as (server, http):
            await http.post("/v1/runs", json=a_request("tell me", runId="lost"))
            work = a_request("work", runId="kept", stateKey="chat-1", graphId=WORKER)
            await http.post("/v1/runs", json=work)
            pick = a_request("pick", runId="picks", stateKey="chat-2", graphId=f"{MESSAGES}:picker")
            await http.post("/v1/runs", json={**pick, "clientTools": [{"name": "pick", "inputSchema": {}}]})
            await hold.reached.wait()
            await until(lambda: len(simulator.sent) == 3)
            (before,) = await waiting(world, "picks", 1)
            # The transcript is written as the conversation goes, not at the end of the turn.
            await _until_said(world, "chat-1", "tool_call")
            server.kill()

        lost = await _followed(world, "lost")
        kept = await _followed(world, "kept")
        await _require_answerable(world, simulator, before["toolCallId"])
        run = (await world.http.get("/v1/runs/kept")).json()
        asked = next(each for each in reversed(simulator.requests) if "work" in str(each.messages[0]))
    hold.until.set()

    assert lost[-2:] == [("error", "internal"), ("done", None)]
    assert ("assistant_final", None) in kept
    assert kept[-1] == ("done", None)
    assert (run["attempt"], run["status"], run["final"]["content"]) == (1, "succeeded", "Finished.")
    # It went on: its question was not put again, and the tool is not known to have run.
    assert next(text_of(m["content"]) for m in asked.messages if m["role"] == "user") == "work"
    assert "interrupted" in str(asked.messages)
    assert office().working.is_set() is False
    assert [receipt["attempt"] for receipt in await world.receipts("kept")] == [0, 1]


async def _require_answerable(world: World, simulator: Simulator, void_call: str) -> None:
    """Answer the call of the attempt that is over, and that of the next one."""
    _, again = await waiting(world, "picks", 2)
    answers = [await answer(world, "picks", call, "blue") for call in (void_call, again["toolCallId"])]
    picked, receipts = await world.ended("picks"), await world.receipts("picks")

    assert [each.status_code for each in answers] == [409, 200]
    assert (picked["attempt"], picked["final"]["content"]) == (1, "Blue.")
    assert [receipt["attempt"] for receipt in receipts] == [0, 1, 1]
    sent = {message.message_id for message in simulator.sent}
    assert len({receipt["usageUnitId"] for receipt in receipts} & sent) == 3


async def _until_said(world: World, key: str, kind: str) -> None:
    await until_shown(
        world.http,
        f"/v1/sessions/{key}",
        lambda shown: kind in [message["type"] for message in shown.get("messages", [])],
    )


async def _followed(world: World, run_id: str) -> list[tuple[str, str | None]]:
    async with asyncio.timeout(PATIENCE_S):
        return [(event.type, event.data.get("error")) async for event in world.follow(run_id)]
