"""The OpenAPI document says what the API takes and answers, with examples that are true."""

import json
from typing import Any

import jsonschema
import pytest_asyncio

from app.events import CLIENT_EVENTS
from app.http.native.openapi import CLIENT_EVENT, event_schemas
from app.http.openapi.document import EVENT_SCHEMA, examples
from app.simulator.script import Reply, Text, Thinking, ToolUse, in_turn
from tests.e2e.agents import without_cli
from tests.e2e.stories import ANALYST, CALCULATOR, World, WorldOf, a_request
from tests.integration.conftest import in_shared_world

Operations = dict[str, dict[str, Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(world: World) -> dict[str, Any]:
    described: dict[str, Any] = (await world.http.get("/openapi.json")).json()
    return described


def operations(document: dict[str, Any]) -> Operations:
    every = [operation for path in document["paths"].values() for operation in path.values()]
    return {operation["operationId"]: operation for operation in every}


def answers(operation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Media types of what it answers when all is well."""
    return {
        media_type: content
        for status, response in operation["responses"].items()
        if status.startswith("2")
        for media_type, content in response.get("content", {}).items()
    }


def is_valid(document: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


@in_shared_world
async def test_every_operation_has_examples(document: dict[str, Any]) -> None:
    found = operations(document)

    assert set(examples()) <= set(found)
    for name, operation in found.items():
        bodies = operation.get("requestBody", {}).get("content", {})
        for content in [*bodies.values(), *answers(operation).values()]:
            assert "example" in content, name


@in_shared_world
async def test_examples_match_their_schemas(document: dict[str, Any]) -> None:
    for operation in operations(document).values():
        bodies = operation.get("requestBody", {}).get("content", {})
        for media_type, content in [*bodies.items(), *answers(operation).items()]:
            if media_type == "application/json":
                is_valid(document, content["schema"], content["example"])
            elif EVENT_SCHEMA in content:
                event = content[EVENT_SCHEMA]
                data = [line for line in content["example"].split("\n") if line.startswith("data: ")]
                assert "data: " in content["example"].split("\n\n")[0]
                for line in data:
                    is_valid(document, event, json.loads(line.removeprefix("data: ")))


@without_cli
async def test_streamed_events_match_the_document(world_of: WorldOf, document: dict[str, Any]) -> None:
    thought = Reply([Thinking("Hm."), Text("Let me see."), ToolUse(CALCULATOR, {"expression": "6*7"})])
    world = await world_of(in_turn(thought, Reply([Text("42")])))
    stream = document["paths"]["/v1/runs/stream"]["post"]["responses"]["200"]["content"]["text/event-stream"]

    events = await world.run(a_request(graphId=ANALYST))

    kinds = {event.type for event in events}
    assert {"run_started", "thinking_delta", "tool_call_result", "assistant_final", "done"} <= kinds
    for event in events:
        is_valid(document, stream[EVENT_SCHEMA], event.data)


def test_every_event_schema_lists_its_required_fields() -> None:
    schemas = event_schemas()

    named = schemas[CLIENT_EVENT]["discriminator"]["mapping"].values()
    assert len(named) == len(CLIENT_EVENTS.json_schema()["oneOf"])
    for reference in named:
        schema = schemas[reference.rpartition("/")[2]]
        assert "type" in schema["required"]
        assert "parentToolCallId" not in schema["required"]
    assert {"content", "structuredOutput"} <= set(schemas["AssistantFinal"]["required"])
    assert "args" not in schemas["PermissionResolved"]["required"]


def documented_headers(operation: dict[str, Any], status: str) -> set[str]:
    return {name.lower() for name in operation["responses"][status].get("headers", {})}


@without_cli
async def test_headers_that_programs_read_are_documented(world_of: WorldOf, document: dict[str, Any]) -> None:
    world = await world_of(in_turn(Reply([Text("42")])), RUNTALLY_CORS_ORIGINS="https://chat.example.org")
    found = operations(document)
    readable = (await world.http.get("/healthz", headers={"Origin": "https://chat.example.org"})).headers

    started = await world.http.post("/v1/runs", json=a_request())
    missing = await world.http.get("/v1/runs/nothing")

    every = {
        name
        for operation in found.values()
        for status in operation["responses"]
        for name in documented_headers(operation, status)
    }
    assert {name.strip().lower() for name in readable["access-control-expose-headers"].split(",")} <= every
    assert {"location", "x-request-id"} <= documented_headers(found["start_run"], "202")
    assert {"location", "x-request-id"} <= started.headers.keys()
    assert {"x-request-id", "retry-after", "ratelimit"} <= documented_headers(found["get_run"], "4XX")
    assert "x-request-id" in missing.headers


@in_shared_world
async def test_what_old_clients_of_ag_ui_post_and_read_is_documented(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    part = {"type": "binary", "mimeType": "image/png", "data": "aGk="}
    posted = {
        "threadId": "t",
        "runId": "r",
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
        "messages": [],
    }

    is_valid(document, schemas["AgUiPostedInput"], posted)
    message = {"id": "m", "role": "user", "content": [part]}
    is_valid(document, schemas["AgUiPostedInput"], {**posted, "messages": [message]})
    is_valid(document, schemas["AgUiEvent"], {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Hm."})
