"""One prompt, one answer: what a caller gets, and that it is a run like any other."""

import asyncio
from typing import Any

import httpx
import httpx_sse
import pytest

from app.executors.port import INTERNAL, MAX_TURNS, UNAVAILABLE
from app.simulator.script import Reply, Text, Thinking, ToolUse, in_turn
from tests.e2e.stories import World, WorldOf
from tests.factories import scripted
from tests.scripted import Action, Fail, WriteMessage

GRAPH = "claude_agents:generate"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
ADA = {"name": "Ada", "age": 36}
WORDS = WriteMessage("I would rather not.")
INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("text", {"prompt": ""}, "prompt"),
    ("text", {"prompt": None}, "prompt"),
    ("text", {"system": ""}, "system"),
    ("text", {"role": "triage", "model": "haiku"}, "role"),
    ("text", {"role": "haiku"}, "role"),
    ("text", {"model": "gpt-5"}, "model"),
    ("text", {"schema": SCHEMA}, "schema"),
    ("text", {"stream": "yes"}, "stream"),
    ("text", {"limits": {"maxTurns": 0}}, "limits.maxTurns"),
    ("text", {"toolIds": []}, "toolIds"),
    ("text", {"runId": "a/b"}, "runId"),
    ("text", {"presencePenalty": 1}, "presencePenalty"),
    ("object", {"seed": 7}, "seed"),
    ("object", {"stream": True}, "stream"),
    ("object", {"schema": None}, "schema"),
    ("object", {"schema": {"type": 5}}, "schema"),
    ("object", {"schema": {"$ref": "#"}}, "schema"),
]


def an_object(value: dict[str, Any]) -> Reply:
    return Reply([ToolUse("StructuredOutput", value)])


async def _text(world: World, **fields: Any) -> httpx.Response:
    return await world.http.post("/v1/generate/text", json={"prompt": "hello", **fields})


async def _object(world: World, **fields: Any) -> httpx.Response:
    return await world.http.post("/v1/generate/object", json={"prompt": "Who?", "schema": SCHEMA, **fields})


async def test_a_text_is_a_run_with_a_receipt(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("Good day.")])))

    response = await _text(world, system="Speak like a butler.", model="haiku", limits={"timeoutS": 30})

    answer = response.json()
    assert (response.status_code, set(answer)) == (200, {"content", "usage", "runId"})
    assert answer["content"] == "Good day."
    assert answer["usage"] == {"promptTokens": 10, "completionTokens": 20}
    run = (await world.http.get(f"/v1/runs/{answer['runId']}")).json()
    assert (run["graphId"], run["model"], run["status"]) == (GRAPH, "claude-haiku-5-5", "succeeded")
    assert run["requestId"] == response.headers["x-request-id"]
    (receipt,) = await world.receipts(answer["runId"])
    assert (receipt["graphId"], receipt["outputTokens"]) == (GRAPH, 20)
    (asked,) = world.simulator.requests
    assert asked.system.endswith("Speak like a butler.")
    assert (asked.last_text, asked.tool_names) == ("hello", [])


NO_TEXTS = [
    (Reply([Text("on and on")], stop_reason="max_tokens"), (422, "length")),
    (Reply([Thinking("hm")]), (502, "invalid_output")),
    (Reply([Text("one two"), Text("three four")], cut_after=7, delta_delay_s=0.05), (502, "invalid_output")),
]


async def test_a_text_is_one_message_whatever_the_agent_does(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    for number, (reply, problem) in enumerate(NO_TEXTS, 1):
        world.simulator.responder = in_turn(reply)

        response = await _text(world)

        assert (response.status_code, response.json()["code"]) == problem
        assert len(await world.receipts(response.json()["runId"])) == 1
        assert len(world.simulator.sent) == number


async def test_an_object_that_does_not_match_is_sent_back_once(world_of: WorldOf) -> None:
    world = await world_of(in_turn(an_object({"name": "Ada"}), an_object(ADA)))

    response = await _object(world, role="curator")

    answer = response.json()
    assert (response.status_code, set(answer)) == (200, {"object", "usage", "runId"})
    assert answer["object"] == ADA
    assert len(await world.receipts(answer["runId"])) == 2
    asked = world.simulator.requests[0]
    assert (asked.body["model"], asked.tool_names) == ("claude-sonnet-5-5", ["StructuredOutput"])


@pytest.mark.parametrize(
    "actions",
    [(WORDS,), (WORDS, Fail(INTERNAL)), (WORDS, Fail(MAX_TURNS))],
    ids=["words", "no match or a refusal", "no match in time"],
)
async def test_an_answer_without_the_object_is_an_error_never_null(
    world_of: WorldOf, actions: tuple[Action, ...]
) -> None:
    world = await world_of(in_turn(), executors=scripted(*actions))

    response, again = [await _object(world, runId="no-object") for _ in range(2)]

    problem = response.json()
    assert (response.status_code, problem["code"], problem["runId"]) == (502, "invalid_output", "no-object")
    assert again.json() == problem
    assert len(await world.receipts("no-object")) == 1


async def test_a_run_that_fails_is_a_problem_that_names_it(world_of: WorldOf) -> None:
    """The status of each failure: see `tests/unit/runs/events/test_failures.py`."""
    world = await world_of(in_turn(), executors=scripted(Fail(UNAVAILABLE)))

    for response in (await _text(world, runId="failed-1"), await _object(world, runId="failed-2")):
        problem = response.json()
        assert response.headers["content-type"] == "application/problem+json"
        assert (response.status_code, problem["code"]) == (503, "provider_unavailable")
        assert "retry-after" in response.headers
        assert (await world.ended(problem["runId"]))["status"] == "failed"


async def test_the_same_key_asks_the_model_once(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("once")))
    key = {"Idempotency-Key": "k-1"}

    async def ask(path: str = "text", **fields: Any) -> httpx.Response:
        body = {"prompt": "hello", **fields}
        return await world.http.post(f"/v1/generate/{path}", json=body, headers=key)

    first, second = await asyncio.gather(ask(), ask())
    other = await ask(prompt="bye")
    as_object = await ask("object", schema=SCHEMA)

    assert first.json() == second.json()
    assert len(await world.receipts(first.json()["runId"])) == 1
    for response in (other, as_object):
        assert (response.status_code, response.json()["code"]) == (409, "run_id_taken")


async def test_a_text_streams_when_asked(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("one two three")))
    body = {"prompt": "hello", "stream": True, "runId": "streamed-1"}

    async with httpx_sse.aconnect_sse(world.http, "POST", "/v1/generate/text", json=body) as source:
        types = [event.event async for event in source.aiter_sse() if event.data]
    afterwards = await _text(world, runId="streamed-1")

    assert types[0] == "run_started"
    assert types[-2:] == ["assistant_final", "done"]
    assert "text_delta" in types
    assert afterwards.json()["content"] == "one two three"
    assert len(await world.receipts("streamed-1")) == 1


async def test_an_invalid_field_is_named(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted())

    for path, change, field in INVALID:
        body = {"prompt": "hello", **({"schema": SCHEMA} if path == "object" else {}), **change}
        response = await world.http.post(f"/v1/generate/{path}", json=body)
        assert response.status_code == 422, (path, change, response.text)
        assert [error["field"] for error in response.json()["errors"]] == [field], (path, change)

    assert (await world.http.get("/v1/runs")).json()["items"] == []


async def test_a_parameter_claude_does_not_take_is_said_to_be_one(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    response = await _text(world, seed=7)

    assert response.json()["detail"] == "seed: is a parameter that Claude models do not take"
