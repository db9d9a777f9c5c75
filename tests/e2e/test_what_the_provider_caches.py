"""A graph's static prompt is the same prefix in every run, so that the provider finds it in its cache.

The provider caches up to a block that is marked, and finds it again only when everything up to
there is the same: tools first, then the system prompt, then messages.
"""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import ApiRequest, Reply, Text, Thinking, ToolUse
from tests.e2e.parking import a_parking_world, next_ready, process_of, start_none_ahead
from tests.e2e.prompt_prefix import first_difference
from tests.e2e.stories import ANALYST, ASSISTANT, CLOCK, WorldOf, a_request

TOOLS = ["core__calculate", "core__get_current_time"]


def hello(_: ApiRequest) -> Reply:
    return Reply([Text("hello")])


def cacheable(request: ApiRequest) -> bytes:
    """Everything up to the last marked block of the system prompt, byte by byte."""
    system: list[dict[str, Any]] = request.body["system"]
    last = max(index for index, block in enumerate(system) if "cache_control" in block)
    return json.dumps([request.body["model"], request.body["tools"], system[: last + 1]]).encode()


async def test_the_prefix_depends_on_the_graph_and_on_what_a_request_adds_to_its_prompt_alone(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(hello, RUNTALLY_IDLE_PROCESSES=0)
    added = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    bodies: list[dict[str, Any]] = [
        *(
            a_request(prompt, graphId=ANALYST, toolIds=TOOLS[::step])
            for prompt, step in (("one", 1), ("two", -1))
        ),
        *({"graphId": ASSISTANT, "messages": messages} for messages in (added, [added[1]])),
    ]
    runs = [(await world.run(body))[0].data["runId"] for body in bodies]

    one, two, brief, plain = world.simulator.requests
    graph = world.services.graphs.get(ANALYST).system_prompt
    assert cacheable(one) == cacheable(two)
    assert one.body["system"][-1]["text"] == graph
    assert one.messages != two.messages
    assert one.tool_names == two.tool_names
    # The graph's own prompt comes first, but the CLI puts both into one block.
    assert brief.body["system"][-1]["text"] == f"{plain.body['system'][-1]['text']}\n\nBe brief."
    # Nothing of the run or the machine.
    prefix = cacheable(plain).decode()
    assert not any(word in prefix for word in (*runs, str(tmp_path), "run-", "2026-", "session"))


THINKER = """---
description: Thinks.
tools: [core__get_current_time]
thinking_budget_tokens: 2048
{agents}---
You think.
"""
AGENTS = """agents:
  helper:
    description: Helps.
    prompt: You help.
"""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAAAAgAB4iG8MwAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "mediaType": "image/png", "data": DOT}
TURNS: list[Any] = [
    "what time is it?",
    [{"type": "text", "text": "look"}, IMAGE],
    "thank you",
]


def thinks(request: ApiRequest) -> Reply:
    if "time" in request.last_text and not request.tool_results:
        return Reply([Thinking("Hm."), Text("Let me see."), ToolUse(CLOCK, {"timezone": "UTC"})])
    return Reply([Thinking("So."), Text("There.")])


@pytest.mark.parametrize(("idle", "agents"), [(2, ""), (0, AGENTS)], ids=["lean, parked", "full, resumed"])
async def test_each_request_of_a_conversation_begins_with_the_one_before(
    world_of: WorldOf, tmp_path: Path, idle: int, agents: str
) -> None:
    (tmp_path / "thinker.md").write_text(THINKER.format(agents=agents))
    world = await a_parking_world(world_of, thinks, idle=idle, RUNTALLY_GRAPHS_DIR=tmp_path)
    processes = set[int]()
    for content in TURNS:
        body = {"graphId": "claude_agents:thinker", "messages": [{"role": "user", "content": content}]}
        final = (await world.http.post("/v1/runs/wait", json={**body, "stateKey": "chat"})).json()
        assert final["ok"], final
        processes |= {process_of(world, "chat").pid} if idle else set()

    requests = world.simulator.requests
    assert len(requests) == len(TURNS) + 1
    assert len(processes) == (1 if idle else 0)
    assert [first_difference(*pair) for pair in pairwise(requests)] == [None] * (len(requests) - 1)


@pytest.mark.parametrize("agents", ["", pytest.param(AGENTS, marks=pytest.mark.long)], ids=["lean", "full"])
async def test_a_process_that_has_warmed_up_makes_the_requests_of_a_fresh_one(
    world_of: WorldOf, tmp_path: Path, redis_url: str, agents: str
) -> None:
    (tmp_path / "thinker.md").write_text(THINKER.format(agents=agents))
    asked: list[list[str]] = []
    for idle in (0, 2):
        world = await world_of(
            thinks, RUNTALLY_IDLE_PROCESSES=idle, RUNTALLY_GRAPHS_DIR=tmp_path, REDIS_URL=redis_url
        )
        ready = None
        if idle:
            await world.run(a_request("hello", graphId="claude_agents:thinker", stateKey="other"))
            ready = await next_ready(world)
            await start_none_ahead(world)
            # Nothing of its question reaches the provider.
            assert len(world.simulator.requests) == 1
            world.simulator.requests.clear()
        chat = f"chat-{idle}"
        await world.run(a_request("what time is it?", graphId="claude_agents:thinker", stateKey=chat))
        assert ready is None or process_of(world, chat) == ready
        asked.append([without_its_place(request) for request in world.simulator.requests])

    assert asked[0] == asked[1]
    assert len(asked[0]) == 2


def without_its_place(request: ApiRequest) -> str:
    """The whole body, but for what is of the process that sent it, and of the clock and the simulator."""
    body = {**request.body, "metadata": sorted(request.body["metadata"])}
    for result in request.tool_results:
        result["content"] = ""
    return re.sub(r"/[^ ]*/run-\w+/|toolu_sim\w+", "", json.dumps(body))


async def test_an_operator_chooses_how_long_it_is_kept(world_of: WorldOf) -> None:
    world = await world_of(hello, RUNTALLY_PROMPT_CACHE_TTL="1h")
    await world.run(a_request())

    marks = re.findall(r'"cache_control": (\{[^}]*\})', json.dumps(world.simulator.requests[0].body))
    assert {json.loads(mark)["ttl"] for mark in marks} == {"1h"}


def test_a_difference_is_shown_with_its_first_byte() -> None:
    def asked(text: str) -> ApiRequest:
        blocks = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        return ApiRequest({}, {"model": "m", "system": blocks, "messages": []})

    assert first_difference(asked("one two"), asked("one two")) is None
    found = first_difference(asked("one two"), asked("one too"))
    assert found is not None
    assert "byte 86 of" in found
    assert "two" in found
