from typing import Any

from app.simulator.script import Hold, Reply, Text, in_turn
from tests.e2e.agents import without_cli
from tests.e2e.stories import World, WorldOf, a_client, a_request


@without_cli
async def test_a_conversation_is_called_by_its_first_question(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("Hello Ada")]), Reply([Text("Ada")])))
    first = await world.start(a_request("I am\n Ada, " + "and I like tea " * 20, stateKey="chat-1"))
    await world.ended(first)
    await world.ended(await world.start(a_request("who am I?", stateKey="chat-1")))

    fork = (await world.http.post("/v1/sessions/chat-1/fork", json={"at": first})).json()
    (_, listed) = (await world.http.get("/v1/sessions")).json()["items"]

    assert listed["title"].startswith("I am Ada, and I like tea and")
    assert listed["title"].endswith("I like tea and…")
    assert fork["title"] == listed["title"]


@without_cli
async def test_what_waits_to_be_heard_is_shown_in_its_turn(world_of: WorldOf) -> None:
    hold = Hold(index=4)
    world = await world_of(in_turn(Reply([Text("one two")], hold=hold), *[Reply([Text("three")])] * 2))
    running = await world.start(a_request("first", stateKey="chat-1"))
    await hold.reached.wait()
    cancelled = await world.start(a_request("second", stateKey="chat-1"))
    await world.http.post(f"/v1/runs/{cancelled}/cancel")
    await world.ended(cancelled)
    waiting = await world.start(a_request("third", stateKey="chat-1"))
    before = await asked(world)
    hold.until.set()
    for run_id in (running, waiting):
        await world.ended(run_id)

    assert before == [("first", running, None), ("second", cancelled, "aborted"), ("third", waiting, None)]
    assert await asked(world) == [
        ("first", running, "stop"),
        ("second", cancelled, "aborted"),
        ("third", waiting, "stop"),
    ]


@without_cli
async def test_what_it_cost_is_for_keys_that_may_see_receipts(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("hello")])))
    run_id = await world.start(a_request(stateKey="chat-1"))
    await world.ended(run_id)
    _, reader = await world.services.accounts.create_key("default", ["runs:read"])

    async with a_client(world.url, reader) as http:
        hidden = (await http.get("/v1/sessions/chat-1")).json()["messages"][-1]
    shown = (await world.http.get("/v1/sessions/chat-1")).json()["messages"][-1]

    assert hidden["costUsd"] is None
    assert shown["costUsd"] == (await world.http.get(f"/v1/runs/{run_id}")).json()["billing"]["costUsd"]
    assert float(shown["costUsd"]) > 0


async def asked(world: World) -> list[tuple[str, str, str | None]]:
    """Each question, its run and how that ended."""
    messages: list[dict[str, Any]] = (await world.http.get("/v1/sessions/chat-1")).json()["messages"]
    ends = {each["runId"]: each["finishReason"] for each in messages if each["type"] == "result"}
    return [
        (each["content"], each["runId"], ends[each["runId"]])
        for each in messages
        if each["type"] == "user_message"
    ]
