"""A run that has answered waits for another message, as long as its request and its graph allow."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Reply, Text, text_of
from tests.e2e.agents import every_agent, every_agent_at_length, without_cli
from tests.e2e.stories import Heard, World, WorldOf, a_request
from tests.graph_files import graph_files
from tests.patience import PATIENCE_S

GRAPH = "claude_agents:talker"


async def a_talker(world_of: WorldOf, directory: Path) -> World:
    graphs = graph_files(directory, talker="---\ndescription: d\nkeep_open_s: 3600\n---\nTalk.\n")
    answers = lambda request: Reply([Text(f"Answer to {request.last_text}")])  # noqa: E731
    return await world_of(answers, **graphs)


async def open_run(world: World, **fields: Any) -> str:
    """A run that has answered its first message and is open."""
    run_id = await world.start(a_request("one", graphId=GRAPH, keepOpenS=3600, **fields))
    await until_open(world, run_id, turns=1)
    return run_id


async def until_open(world: World, run_id: str, *, turns: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for event in world.follow(run_id):
            turns -= event.data.get("label") == "Open for messages"
            if turns == 0:
                return


async def send(world: World, run_id: str, content: str) -> Any:
    return await world.http.post(f"/v1/runs/{run_id}/messages", json={"content": content})


def assert_answered(events: list[Heard], text: str) -> None:
    (final,) = [event.data for event in events if event.type == "assistant_final"]
    assert final["content"] == f"Answer to {text}"
    assert (events[-1].type, events[-1].data["finishReason"]) == ("done", "stop")


@every_agent
async def test_messages_are_more_turns_of_the_same_run(world_of: WorldOf, tmp_path: Path) -> None:
    world = await a_talker(world_of, tmp_path)
    run_id = await open_run(world, stateKey="chat")
    for turns, content in [(2, "two"), (3, "three")]:
        assert (await send(world, run_id, content)).status_code == 202
        await until_open(world, run_id, turns=turns)

    assert (await world.http.get(f"/v1/runs/{run_id}")).json()["status"] == "running"
    await world.http.post(f"/v1/runs/{run_id}/interrupt")
    events = await world.events(run_id)
    late = await send(world, run_id, "four")
    await world.run(a_request("five", graphId=GRAPH, stateKey="chat"))

    assert_answered(events, "three")
    assert [event.data["content"] for event in events if event.type == "user_message"] == ["two", "three"]
    assert (late.status_code, late.json()["code"]) == (409, "run_ended")
    bases = [receipt["basis"] for receipt in await world.receipts(run_id)]
    assert bases == ["final", "final", "final"]
    talked = [text_of(message["content"]) for message in world.simulator.requests[-1].messages]
    assert talked == [
        *("one", "Answer to one", "two", "Answer to two", "three", "Answer to three"),
        "five",
    ]


@without_cli
async def test_it_ends_when_no_message_has_come(world_of: WorldOf, tmp_path: Path) -> None:
    world = await a_talker(world_of, tmp_path)

    events = await world.run(a_request("one", graphId=GRAPH, keepOpenS=0.05))

    assert_answered(events, "one")


@every_agent_at_length
@pytest.mark.parametrize("ending", ["cancel", "drain"])
async def test_whatever_ends_it_its_answer_stays(world_of: WorldOf, tmp_path: Path, ending: str) -> None:
    world = await a_talker(world_of, tmp_path)
    run_id = await open_run(world)

    if ending == "cancel":
        await world.http.post(f"/v1/runs/{run_id}/cancel")
    else:
        await world.services.drain.drain(within_s=PATIENCE_S)

    assert_answered(await world.events(run_id), "one")
