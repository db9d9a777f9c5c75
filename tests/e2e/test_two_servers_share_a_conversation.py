"""A conversation on two servers: its turns go to the one that keeps its process, while that has a place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.ids import new_uuid
from app.simulator.script import ApiRequest, Reply, Text
from tests.e2e.parking import gone, parked, process_of
from tests.e2e.stories import World, WorldOf, a_request, a_world, until
from tests.e2e.test_a_conversation_keeps_its_process import echo, questions, turn

pytestmark = pytest.mark.long


def hang_or_echo(request: ApiRequest) -> Reply:
    """Run `hang` keeps its place until it is cancelled."""
    if "hang" in request.last_text:
        return Reply([Text("word " * 600)], delta_delay_s=0.5)
    return echo(request)


@asynccontextmanager
async def busy(world: World) -> AsyncIterator[None]:
    """Each place of this server is taken meanwhile."""
    run_id = f"hang-{new_uuid()}"
    await world.start(a_request("hang", runId=run_id))
    await until(lambda: not has_a_place(world))
    try:
        yield
    finally:
        await world.http.post(f"/v1/runs/{run_id}/cancel")
        await until(lambda: has_a_place(world))


def has_a_place(world: World) -> bool:
    return world.services.dispatcher.places.free > 0


def asked_last(world: World) -> list[str]:
    """What users have said in the conversation that this server's model was asked for last."""
    requests = world.simulator.requests
    return questions(requests[-1]) if requests else []


async def test_two_servers_take_turns(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """Each with its own text of the same graph: what one has parked is stale once the other has answered."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    shared: dict[str, Any] = {
        "RUNTALLY_IDLE_PROCESSES": 2,
        "RUNTALLY_MAX_CONCURRENT_RUNS": 1,
        "RUNTALLY_MAX_RUNS_PER_ACCOUNT": 4,
        "REDIS_URL": redis_url,
    }
    one = await world_of(hang_or_echo, **shared, **graphs(tmp_path / "one", "I am the first server."))
    other = graphs(tmp_path / "two", "I am the second server.")
    async with a_world(tmp_path / "other", database_url, hang_or_echo, **shared, **other) as two:
        said: list[str] = []

        async def answer(*, through: World) -> World:
            """The server that answers the next turn."""
            said.append(str(len(said)))
            await turn(through, said[-1], graphId="claude_agents:speaker")
            (answering,) = [each for each in (one, two) if asked_last(each) == said]
            assert ("first server" in answering.simulator.requests[-1].system) == (answering is one)
            # A turn ends for its reader a moment before its process is kept and its place free.
            await until(lambda: parked(answering) == ["chat-1"] and has_a_place(answering))
            return answering

        assert await answer(through=one) is one
        # It keeps the process of the conversation, and gets the next turn wherever that is posted. The turn
        # is kept for it for 100 ms only, which a busy machine may miss.
        for _ in range(5):
            if await answer(through=two) is one:
                break
            async with busy(two):
                assert await answer(through=two) is one
        else:
            pytest.fail("No turn was given to the server that keeps the process.")
        async with busy(one):
            assert await answer(through=two) is two
        stale = process_of(one, "chat-1")
        async with busy(two):
            assert await answer(through=two) is one
        await gone(stale)


def graphs(directory: Path, prompt: str) -> dict[str, Any]:
    (directory / "speaker.md").write_text(f"---\ndescription: Speaks.\n---\n{prompt}\n")
    return {"RUNTALLY_GRAPHS_DIR": directory}
