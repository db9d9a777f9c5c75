"""Both clients do everything that they can with a real server."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, text_of
from runtally import (
    AsyncClient,
    AsyncRunStream,
    Client,
    ClientTool,
    Conflict,
    InvalidRequest,
    NotFound,
    QuestionAsked,
    QuestionResolved,
    RunOptions,
    TextDelta,
)
from runtally.options import ConversationFilters
from tests.clients.node import HERE, install_client, node
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import KEY, World, WorldOf
from tests.e2e.test_the_agent_asks import COLOR, SIZES
from tests.graph_files import graph_files

pytestmark = pytest.mark.long

GRAPH = f"{MESSAGES}:assistant"
HELPER = f"{MESSAGES}:helper"
HELPS = """---
title: Helping hand
description: d
suggestions: [Help me.]
input: {type: object, properties: {topic: {type: string}}, required: [topic]}
client_tools: true
questions: true
---
Help.
"""
ANSWERED = 'The user answered: "Which color?"="Red", "Which sizes?"="S, M".'


def respond(request: ApiRequest) -> Reply:
    """Some runs end only when they are stopped; one calls the client's tools."""
    if request.tool_results:
        return Reply([Text(" ".join(text_of(result["content"]) for result in request.tool_results))])
    if request.last_text == "pick":
        return Reply([ToolUse("client-pick", {"about": "sky"}), ToolUse("client-break", {})])
    if request.last_text == "ask":
        return Reply([ToolUse("AskUserQuestion", {"questions": [COLOR, SIZES]})])
    held = "hold" in request.last_text
    return Reply([Text("one two three four")], hold=Hold(index=4) if held else None)


async def first_words(stream: AsyncRunStream) -> None:
    """Read until the agent writes."""
    async for event in stream:
        if isinstance(event, TextDelta):
            return


async def test_everything_that_the_python_client_can_do(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(respond, **graph_files(tmp_path, helper=HELPS))
    async with AsyncClient(world.url, KEY) as client:
        await runs_are_started_and_stopped(client)
        await conversations_are_kept(client)
        await tools_are_executed_here(client, world)
        await questions_are_answered(client, world)
        await costs_are_read(client)
        await graphs_have_inputs(client)
        with pytest.raises(NotFound, match="graph"):
            await client.run(f"{MESSAGES}:nope", "hi")
        with pytest.raises(InvalidRequest) as raised:
            await client.run(GRAPH, "hi", priority=9)
        assert [error.field for error in raised.value.errors] == ["priority"]
        assert raised.value.request_id
    await everything_in_typescript(world, tmp_path)


async def runs_are_started_and_stopped(client: AsyncClient) -> None:
    started = await client.start(GRAPH, "hello", run_id="run-1")
    joined = await client.start(GRAPH, "hello", run_id="run-1")
    final = (await client.wait(started.run_id)).raise_for_error()
    assert joined.run_id == started.run_id == final.run_id == "run-1"
    assert final.content == "one two three four"
    assert final == await client.wait("run-1")

    async with client.stream(GRAPH, "hold on") as stream:
        await first_words(stream)
        assert (await stream.cancel()).run_id == stream.run_id
        assert (await client.wait(stream.run_id)).error == "aborted"
    async with client.stream(GRAPH, "hold on") as stream:
        await first_words(stream)
        assert (await stream.send("and then", priority="now")).run_id == stream.run_id
        assert (await client.wait(stream.run_id)).content == "one two three four"
    async with client.stream(GRAPH, "hold on") as stream:
        await first_words(stream)
        await stream.interrupt()
        assert (await client.wait(stream.run_id)).finish_reason == "aborted"

    runs = [run async for run in client.list_runs()]
    assert len(runs) == 4
    assert runs[-1].run_id == "run-1"
    assert runs[-1].created_at < datetime.now(UTC)
    assert [run.run_id async for run in client.list_runs(status="succeeded", until=runs[-1].created_at)] == []
    assert "run-1" in [run.run_id async for run in client.list_runs(status="succeeded", graph_id=GRAPH)]
    assert "prompt_rendered" in [each.type async for each in client.evidence("run-1")]
    assert await client.files("run-1") == []
    for form in ("zip", "tar"):
        assert await client.archive("run-1", form)
    assert (await client.preview(GRAPH, "hello")).graph_id == GRAPH
    with pytest.raises(Conflict):
        await client.change("run-1", permission_mode="plan")
    await client.delete("run-1")
    assert (await client.get("run-1")).model_extra["contentsDeletedAt"] is not None  # type: ignore[index]


async def conversations_are_kept(client: AsyncClient) -> None:
    await client.run(GRAPH, "first", state_key="chat-1")
    labels: RunOptions = {"state_key": "chat-1", "end_user": "ann", "tags": {"team": "search"}}
    run_id = (await client.run(GRAPH, "second", **labels)).run_id
    conversations = client.conversations
    (chat,) = [each async for each in conversations.list()]
    assert (chat.state_key, chat.turns) == ("chat-1", 2)
    filters: ConversationFilters = {"q": "second", "end_user": "ann", "tag": "team:search"}
    assert [each.found_in_run async for each in conversations.list(**filters)] == [run_id]
    assert [each async for each in conversations.list(q="third")] == []
    assert [run.run_id async for run in client.list_runs(tag="team:search")] == [run_id]
    messages = [each async for each in conversations.messages("chat-1")]
    assert [each.type for each in messages] == 2 * ["user_message", "assistant_message", "result"]
    await client.run(GRAPH, "second, edited", state_key="chat-1", fork_from=str(messages[-1].run_id))
    first, second = await conversations.branches("chat-1")
    assert (first.runs, second.runs, second.is_current) == (2, 1, True)
    assert second.forked_from_run == messages[0].run_id
    assert second.cost_usd == sum(each.cost_usd for each in await client.run_receipts(second.last_run or ""))
    assert [each.is_current for each in await conversations.return_to("chat-1", first.branch_id)] == [
        True,
        False,
    ]
    assert (await conversations.get("chat-1")).branches == 2
    kept = await conversations.files("chat-1")
    assert (kept.run_id, kept.items) == (None, ())
    fork = await conversations.fork("chat-1", at=messages[0].run_id, new_key="chat-2")
    assert (fork.turns, fork.forked_from) == (0, "chat-1")
    await conversations.delete("chat-1")
    with pytest.raises(NotFound):
        await conversations.get("chat-1")
    assert (await conversations.get("chat-2")).forked_from == "chat-1"


async def tools_are_executed_here(client: AsyncClient, world: World) -> None:
    called: list[dict[str, Any]] = []

    def pick(args: dict[str, Any]) -> dict[str, str]:
        called.append(args)
        return {"color": "blue"}

    async def pick_later(args: dict[str, Any]) -> dict[str, str]:
        return pick(args)

    def fail(_args: dict[str, Any]) -> None:
        raise OSError(1, "out of order")

    schema = {"type": "object", "properties": {"about": {"type": "string"}}}
    broken = ClientTool("break", "Break.", {}, fail)
    tools = [ClientTool("pick", "Pick.", schema, pick_later), broken]
    final = await client.run(HELPER, "pick", client_tools=tools, run_id="picked")
    again = await client.run(HELPER, "pick", client_tools=tools, run_id="picked")
    with Client(world.url, KEY) as blocking:
        tools = [ClientTool("pick", "Pick.", schema, pick), broken]
        third = await asyncio.to_thread(blocking.run, HELPER, "pick", client_tools=tools)
    assert {each.content for each in (final, again, third)} == {'{"color": "blue"} [Errno 1] out of order'}
    assert called == [{"about": "sky"}] * 3


async def questions_are_answered(client: AsyncClient, world: World) -> None:
    answers = {"0": "Red", "Which sizes?": ("S", "M")}
    for by_stream in (True, False):
        async with client.stream(HELPER, "ask") as stream:
            async for event in stream:
                if isinstance(event, QuestionAsked) and by_stream:
                    assert [each.question for each in event.questions] == ["Which color?", "Which sizes?"]
                    await stream.answer(event.request_id, answers)
                elif isinstance(event, QuestionAsked):
                    await client.answer(stream.run_id, event.request_id, answers)
        assert stream.final.content == ANSWERED
    assert await asyncio.to_thread(endings_of_declined, world.url) == ["declined", "declined"]


def endings_of_declined(url: str) -> list[str]:
    endings = []
    with Client(url, KEY) as client:
        for by_stream in (True, False):
            with client.stream(HELPER, "ask") as stream:
                for event in stream:
                    if isinstance(event, QuestionAsked) and by_stream:
                        stream.answer(event.request_id, None)
                    elif isinstance(event, QuestionAsked):
                        client.answer(stream.run_id, event.request_id, None)
                    elif isinstance(event, QuestionResolved):
                        endings.append(event.resolved_by)
    return endings


async def costs_are_read(client: AsyncClient) -> None:
    receipts = [each async for each in client.receipts(since=datetime.now(UTC) - timedelta(hours=1))]
    usage = await client.usage(group_by="graph", time_zone="Europe/Berlin")
    assert sum(each.cost_usd for each in receipts) == usage.total.cost_usd > Decimal(0)
    assert {each.group for each in usage.items} == {GRAPH, HELPER}
    assert sum(line.amount_usd for line in receipts[0].lines) == receipts[0].cost_usd
    of_run = await client.run_receipts(receipts[0].run_id)
    assert receipts[0] in of_run
    assert (await client.balance()).spent_usd == usage.total.cost_usd
    assert GRAPH in [each.id for each in await client.graphs()]
    assert "core__calculate" in [each.id for each in await client.tools()]
    assert any(each.priced for each in await client.models())
    assert [each async for each in client.receipts(run_id="nothing")] == []


async def graphs_have_inputs(client: AsyncClient) -> None:
    helper = next(each for each in await client.graphs() if each.id == HELPER)
    assert (helper.title, helper.icon, helper.output) == ("Helping hand", None, None)
    assert [(each.title, each.message) for each in helper.suggestions] == [("Help me.", "Help me.")]
    assert helper.input is not None
    assert helper.input["required"] == ["topic"]
    assert (await client.run(HELPER, None, input={"topic": "tea"})).content == "one two three four"
    with pytest.raises(InvalidRequest) as raised:
        await client.run(HELPER, None, input={"topic": 1})
    assert [error.field for error in raised.value.errors] == ["input.topic"]
    with pytest.raises(TypeError, match="a run needs a prompt, an input, or fork_from"):
        await client.run(HELPER, None)


async def everything_in_typescript(world: World, directory: Path) -> None:
    """The same with the other client."""
    await asyncio.to_thread(install_client, directory)
    (directory / "program.mjs").write_text((HERE / "typescript_story.mjs").read_text())
    printed: dict[str, Any] = json.loads(
        await node(str(directory / "program.mjs"), world.url, KEY, GRAPH, variables={})
    )
    assert printed == {
        "final": "one two three four",
        "joined": True,
        "cancelled": "aborted",
        "sent": "one two three four",
        "interrupted": "aborted",
        "picked": "blue no",
        "answered": ANSWERED,
        "runs": ["ts-1"],
        "files": [0, True, True],
        "previewed": GRAPH,
        "evidence": True,
        "unchanged": "Conflict",
        "kept": [None, 0],
        "deletedBatch": "NotFound",
        "deleted": True,
        "others": 0,
        "turns": 2,
        "batch": [2, "completed", 2, "completed"],
        "results": ["a succeeded", "b succeeded"],
        "types": 2 * ["user_message", "assistant_message", "result"],
        "branches": [[False, True], [True, False]],
        "fork": [0, "ts-chat"],
        "gone": "NotFound",
        "costsAgree": True,
        "ofRun": 1,
        "graphs": True,
        "fromInput": ["Helping hand", "one two three four"],
        "tools": True,
        "models": True,
        "refused": ["InvalidRequest", "priority"],
    }
