"""Answers are repeated and messages edited: the model gets what the person sees, and nothing is lost."""

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from app.simulator.script import Answer, Hold, Reply, Text
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import World, WorldOf, a_client, a_request, first_text
from tests.e2e.test_a_chat_of_the_ai_sdk import a_post, conversation_of, says


async def shown(world: World, **params: Any) -> list[tuple[str, str]]:
    """What a person sees: the messages of the conversation."""
    response = await world.http.get("/v1/sessions/chat-1", params=params)
    messages = response.raise_for_status().json()["messages"]
    roles = {"user_message": "user", "assistant_message": "assistant"}
    return [(roles[each["type"]], each["content"]) for each in messages if each["type"] in roles]


async def posted(world: World, prompt: str, **fields: Any) -> dict[str, Any]:
    run_id = await world.start(a_request(prompt, stateKey="chat-1", **fields))
    return await world.ended(run_id)


async def test_a_run_takes_the_place_of_another_and_the_branches_stay(world_of: WorldOf) -> None:
    answers = iter(["Hello.", "Blue it is.", "Red it is.", "Green it is."])
    world = await world_of(lambda _: Reply([Text(next(answers))]), agent=MESSAGES)

    await posted(world, "hi")
    blue = await posted(world, "BLUE")
    red = await posted(world, "RED", forkFrom=blue["runId"])
    before = await shown(world)
    branches = (await world.http.get("/v1/sessions/chat-1/branches")).json()
    first = branches["items"][0]["branchId"]
    of_first = await shown(world, branch=first)
    await world.http.put("/v1/sessions/chat-1/branch", json={"branchId": first})
    await posted(world, "or green?")

    hello = [("user", "hi"), ("assistant", "Hello.")]
    assert before == [*hello, ("user", "RED"), ("assistant", "Red it is.")]
    assert of_first == [*hello, ("user", "BLUE"), ("assistant", "Blue it is.")]
    heard = [conversation_of(request) for request in world.simulator.requests]
    assert heard[2:] == [[*hello, ("user", "RED")], [*of_first, ("user", "or green?")]]
    assert [(each["runs"], each["forkedFromRun"] is None) for each in branches["items"]] == [
        (2, True),
        (1, False),
    ]
    assert branches["items"][1]["lastRun"] == red["runId"]


async def test_a_branch_costs_what_its_runs_are_billed(world_of: WorldOf) -> None:
    sizes = iter([100, 2_000, 30_000, 400_000])
    world = await world_of(
        lambda _: Reply([Text("Hello.")], final_usage={"output_tokens": next(sizes)}), agent=MESSAGES
    )
    await posted(world, "hi")
    blue = await posted(world, "BLUE")
    red = await posted(world, "RED", forkFrom=blue["runId"])
    green = await posted(world, "or green?")
    _, unread = await world.services.accounts.create_key("default", ["runs:read"])

    url = "/v1/sessions/chat-1/branches"
    branches = (await world.http.get(url)).json()
    async with a_client(world.url, unread) as http:
        hidden = (await http.get(url)).json()
    billed = (await world.http.get("/v1/receipts")).json()["items"]

    costs = {receipt["runId"]: Decimal(receipt["costUsd"]) for receipt in billed}
    assert len(costs) == len(billed) == 4
    second = costs[red["runId"]] + costs[green["runId"]]
    assert [Decimal(each["costUsd"]) for each in branches["items"]] == [sum(costs.values()) - second, second]
    assert Decimal(branches["costUsd"]) == sum(costs.values())
    assert [each["costUsd"] for each in [*hidden["items"], hidden]] == [None] * 3


async def test_the_cli_goes_on_from_what_broke_off(world_of: WorldOf) -> None:
    # After each of these the CLI asks once more, and then gives up. What it has not read when the connection
    # is lost, it loses as well.
    holds = [Hold(index=5) for _ in range(3)]
    broken = [Reply([Text("four five six")], hold=hold, cut_after=hold.index) for hold in holds]
    replies: Iterator[Answer] = iter([*broken, Reply([Text("On.")]), Reply([Text("Again.")])])
    world = await world_of(lambda _: next(replies))

    run_id = await world.start(a_request("count", stateKey="chat-1"))
    for number, hold in enumerate(holds, 1):
        assert await first_text(world, run_id, deltas=2 * number) == "four five" * number
        hold.until.set()
    failed = await world.ended(run_id)
    seen = await shown(world)
    await posted(world, "go on")
    await posted(world, "count", forkFrom=failed["runId"])

    assert failed["final"]["error"] == "provider_unavailable"
    assert seen == [("user", "count"), ("assistant", "four five")]
    heard = [conversation_of(request) for request in world.simulator.requests]
    assert heard[3:] == [[*seen, ("user", "go on")], [("user", "count")]]


async def test_what_a_branch_leaves_behind_ends_and_is_charged(world_of: WorldOf) -> None:
    hold = Hold(index=3)
    replies = iter([Reply([Text("Hello.")]), Reply([Text("one two")], hold=hold), Reply([Text("Instead.")])])
    world = await world_of(lambda _: next(replies), agent=MESSAGES)
    first = await posted(world, "hi")
    active = await world.start(a_request("long", stateKey="chat-1"))
    await hold.reached.wait()
    waiting = await world.start(a_request("more", stateKey="chat-1"))

    not_yet = await world.http.post("/v1/runs", json=a_request("x", stateKey="chat-1", forkFrom=waiting))
    (branch,) = (await world.http.get("/v1/sessions/chat-1/branches")).json()["items"]
    busy = await world.http.put("/v1/sessions/chat-1/branch", json={"branchId": branch["branchId"]})
    instead = await posted(world, "short", forkFrom=active)
    ends = [(await world.ended(run_id))["status"] for run_id in (active, waiting)]
    branches = (await world.http.get("/v1/sessions/chat-1/branches")).json()

    assert [(each.status_code, each.json()["code"]) for each in (not_yet, busy)] == [
        (409, "session_busy")
    ] * 2
    assert instead["final"]["content"] == "Instead."
    assert ends == ["cancelled", "cancelled"]
    assert conversation_of(world.simulator.requests[-1]) == [
        *(("user", "hi"), ("assistant", "Hello."), ("user", "short")),
    ]
    named = ("runs", "forkedFromRun", "forkedFromBranch")
    assert [tuple(each[name] for name in named) for each in branches["items"]] == [
        (3, None, None),
        (1, first["runId"], branch["branchId"]),
    ]


async def test_regenerating_at_once_and_again_leaves_whole_branches(world_of: WorldOf) -> None:
    world = await world_of(lambda request: Reply([Text(f"{len(request.messages)}")]), agent=MESSAGES)
    await posted(world, "hi")
    last = await posted(world, "RED or BLUE")

    body = a_request("RED", stateKey="chat-1", forkFrom=last["runId"])
    answers = await asyncio.gather(*(world.http.post("/v1/runs", json=body) for _ in range(4)))
    same = {**body, "runId": "once"}
    again = await asyncio.gather(*(world.http.post("/v1/runs", json=same) for _ in range(4)))
    runs = {answer.json()["runId"] for answer in [*answers, *again]}
    ends = [(await world.ended(run_id))["status"] for run_id in runs]
    branches = (await world.http.get("/v1/sessions/chat-1/branches")).json()["items"]

    assert {answer.status_code for answer in [*answers, *again]} == {202}
    assert len(runs) == 5
    assert set(ends) <= {"succeeded", "cancelled"}
    assert [each["runs"] for each in branches] == [2, 1, 1, 1, 1, 1]
    for branch in branches[1:]:
        seen = await shown(world, branch=branch["branchId"])
        assert seen[:3] == [("user", "hi"), ("assistant", "1"), ("user", "RED")]
        assert seen[3:] in ([], [("assistant", "3")])


async def test_no_run_takes_a_place_that_is_not_its_conversations(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("Hello.")]), agent=MESSAGES)
    _, other = await world.services.accounts.create_key("other", ["runs:write", "runs:read"])
    mine = await posted(world, "hi")
    elsewhere = await world.start(a_request("hi", stateKey="chat-2"))
    await world.ended(elsewhere)
    without_key = {"graphId": f"{MESSAGES}:assistant", "messages": a_request()["messages"], "forkFrom": "x"}

    def fork(run_id: str, **fields: Any) -> dict[str, Any]:
        return a_request("x", stateKey="chat-1", forkFrom=run_id, **fields)

    async with a_client(world.url, other, agent=MESSAGES) as http:
        theirs = await http.post("/v1/runs", json=fork(mine["runId"]))
        unseen = [
            await http.get("/v1/sessions/chat-1/branches"),
            await http.put("/v1/sessions/chat-1/branch", json={"branchId": "0" * 32}),
        ]
    refused = [
        theirs,
        await world.http.post("/v1/runs", json=fork(elsewhere)),
        await world.http.post("/v1/runs", json=fork("nothing", runId="taken")),
        await world.http.post("/v1/runs", json=without_key),
    ]
    taken = await world.http.put("/v1/sessions/chat-1/branch", json={"branchId": "0" * 32})
    await world.http.delete("/v1/sessions/chat-1")
    deleted = await world.http.post("/v1/runs", json=fork(mine["runId"]))

    assert [(each.status_code, each.json()["errors"][0]["field"]) for each in [*refused, deleted]] == [
        (422, "forkFrom")
    ] * 5
    assert {each.json()["code"] for each in unseen} == {"session_not_found"}
    assert (taken.status_code, taken.json()["code"]) == (404, "branch_not_found")
    assert (await world.http.get("/v1/sessions/chat-1")).status_code == 404
    assert (await world.http.get("/v1/runs/taken")).status_code == 404


async def test_messages_are_answered_again_without_being_sent(world_of: WorldOf) -> None:
    """With their attachments; by whoever may read them, and as long as they are stored."""
    answers = iter(["Hello.", "A dot.", "A small dot.", "A red dot.", "Hi."])
    world = await world_of(lambda _: Reply([Text(next(answers))]), agent=MESSAGES)
    graph_id = f"{MESSAGES}:assistant"
    await posted(world, "hi")
    parts = [{"type": "text", "text": "see"}, {"type": "document", "text": "a dot", "title": "t"}]
    messages = [{"role": "user", "content": parts}]
    body = {"graphId": graph_id, "stateKey": "chat-1", "messages": messages}
    first = await world.ended(await world.start(body))

    again = {"graphId": graph_id, "stateKey": "chat-1", "forkFrom": first["runId"], "runId": "again"}
    await world.ended(await world.start(again))
    joined = await world.http.post("/v1/runs", json=again)
    await world.ended(await world.start({**again, "forkFrom": "again", "runId": "once-more"}))

    bodies = [request.messages[-1]["content"] for request in world.simulator.requests]
    assert [[block["type"] for block in content] for content in bodies[1:]] == [["text", "document"]] * 3
    assert len({str(conversation_of(request)) for request in world.simulator.requests[1:]}) == 1
    assert (joined.status_code, len(world.simulator.requests)) == (202, 4)
    branches = (await world.http.get("/v1/sessions/chat-1/branches")).json()["items"]
    assert [each["runs"] for each in branches] == [2, 1, 1]

    elsewhere = await world.start(a_request("hi", stateKey="chat-2"))
    await world.ended(elsewhere)
    await world.http.delete("/v1/runs/again")
    new = {**again, "runId": None}
    _, writer = await world.services.accounts.create_key("default", ["runs:write"])
    async with a_client(world.url, writer, agent=MESSAGES) as http:
        refused = [await http.post("/v1/runs", json={**new, "forkFrom": "once-more"})]
    refused += [
        await world.http.post("/v1/runs", json={**new, "forkFrom": "again"}),
        await world.http.post("/v1/runs", json={**new, "forkFrom": "none"}),
        await world.http.post("/v1/runs", json={**new, "forkFrom": elsewhere}),
        await world.http.post("/v1/runs", json={**new, "messages": []}),
        await world.http.post("/v1/runs", json={**new, "forkFrom": None}),
        await world.http.post("/v1/runs/preview", json=new),
    ]
    found = [(each.status_code, each.json()["code"]) for each in refused]
    assert found == [(403, "forbidden"), (409, "messages_not_stored"), *[(422, "invalid_request")] * 5]
    fields = [each.json()["errors"][0]["field"] for each in refused[2:]]
    assert fields == ["forkFrom", "forkFrom", "messages", "messages", "messages"]


async def test_an_answer_of_a_chat_that_is_repeated_natively_answers_the_same_message(
    world_of: WorldOf,
) -> None:
    world = await world_of(lambda _: Reply([Text("Hello.")]), agent=MESSAGES)
    graph_id = f"{MESSAGES}:assistant"
    await world.http.post(f"/v1/ai-sdk/{graph_id}/chat", json=a_post(says("hi")))
    (first,) = (await world.http.get("/v1/runs")).json()["items"]

    body = {"graphId": graph_id, "stateKey": "chat-1", "forkFrom": first["runId"], "runId": "again"}
    await world.ended(await world.start(body))

    user, answer, _ = (await world.http.get("/v1/sessions/chat-1")).json()["messages"]
    assert (user["runId"], user["messageId"], answer["content"]) == ("again", "u1", "Hello.")


async def test_a_history_that_contradicts_the_branch_is_refused_and_leaves_no_branch(
    world_of: WorldOf,
) -> None:
    answers = iter(["Hello.", "Blue it is.", "Red it is.", "Green it is."])
    world = await world_of(lambda _: Reply([Text(next(answers))]), agent=MESSAGES)
    await posted(world, "hi")
    blue = await posted(world, "BLUE")
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]

    def body(first: str, prompt: str, instead_of: str) -> dict[str, Any]:
        message = {"role": "user", "content": prompt}
        messages = [{**history[0], "content": first}, history[1], message]
        return {**a_request(stateKey="chat-1", forkFrom=instead_of), "messages": messages}

    red = await world.start(body("hi", "RED", blue["runId"]))
    before = await world.ended(red)
    refused = await world.http.post("/v1/runs", json=body("hi, edited", "GREEN", red))
    branches = (await world.http.get("/v1/sessions/chat-1/branches")).json()["items"]
    green = await world.ended(await world.start(body("hi", "GREEN", blue["runId"])))

    assert before["status"] == green["status"] == "succeeded"
    assert (refused.status_code, refused.json()["code"]) == (409, "history_contradicts")
    assert [each["isCurrent"] for each in branches] == [False, True]
    start = [("user", "hi"), ("assistant", "Hello.")]
    assert [conversation_of(request) for request in world.simulator.requests[2:]] == [
        [*start, ("user", "RED")],
        [*start, ("user", "GREEN")],
    ]


async def test_a_fork_may_end_on_any_branch_and_counts_no_run_of_the_original(world_of: WorldOf) -> None:
    answers = iter(["Hello.", "Blue it is.", "Red it is.", "Sky."])
    world = await world_of(lambda _: Reply([Text(next(answers))]), agent=MESSAGES)
    await posted(world, "hi")
    blue = await posted(world, "BLUE")
    await posted(world, "RED", forkFrom=blue["runId"])

    forked = await world.http.post("/v1/sessions/chat-1/fork", json={"at": blue["runId"], "stateKey": "f"})
    nothing = await world.http.post("/v1/sessions/chat-1/fork", json={"at": "unknown"})
    (branch,) = (await world.http.get("/v1/sessions/f/branches")).json()["items"]
    await world.ended(await world.start(a_request("more", stateKey="f")))
    after = (await world.http.get("/v1/sessions/f/branches")).json()["items"]

    assert (forked.status_code, forked.json()["forkedAt"]) == (201, blue["runId"])
    assert (nothing.status_code, nothing.json()["code"]) == (409, "nothing_to_fork")
    assert (branch["runs"], float(branch["costUsd"]), branch["lastRun"]) == (0, 0, blue["runId"])
    assert [each["runs"] for each in after] == [1]
    assert conversation_of(world.simulator.requests[-1]) == [
        *(("user", "hi"), ("assistant", "Hello."), ("user", "BLUE"), ("assistant", "Blue it is.")),
        ("user", "more"),
    ]
