import json
from dataclasses import replace
from typing import Any

import pytest

from app.executors.messages_api.request import (
    BEGINNING,
    STRUCTURED_OUTPUT,
    AgentRequest,
    end_of_request_before,
    posted_messages,
)
from app.models.registry import ModelOptions
from app.requests.messages import Message
from tests.factories import a_plan, schemas_of
from tests.unit.platform.json_schema.schemas import model_schema_of
from tests.unit.tools.samples.weather import weather

ASSISTANT: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
USER: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
MARK = {"cache_control": {"type": "ephemeral"}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def a_request(schema: dict[str, Any] | None = None, ttl: str = "5m", **plan: Any) -> AgentRequest:
    messages = [Message.of(role="system", content="Be kind."), Message.of(role="user", content="hi")]
    return AgentRequest.of(a_plan(schemas=schemas_of(answer=schema), **plan), messages, ttl=ttl)


def test_tools_system_and_the_ends_of_this_request_and_the_one_before_are_marked() -> None:
    messages, another = [USER, ASSISTANT, USER], replace(weather, description='\u00e9 "]}')
    marked = {len(messages) - 1, end_of_request_before(messages)}
    body = json.loads(a_request(tools=(weather, another)).text(messages, marked=marked))

    assert body["system"] == [{"type": "text", "text": "p\n\nBe kind.", **MARK}]
    definition = {
        "name": weather.id,
        "description": weather.description,
        "input_schema": weather.input_schema,
    }
    assert body["tools"] == [definition, {**definition, "description": '\u00e9 "]}', **MARK}]
    assert body["stream"] is True
    assert [MARK.items() <= message["content"][-1].items() for message in body["messages"]] == [
        True,
        False,
        True,
    ]
    assert "cache_control" not in str(messages)


def test_a_longer_time_in_the_cache_is_named_in_each_mark() -> None:
    body = a_request(ttl="1h").body([USER], marked={0})

    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


@pytest.mark.parametrize(
    ("messages", "index"),
    [
        ([USER], -1),
        ([USER, ASSISTANT, USER], 0),
        ([USER, ASSISTANT, USER, USER], 0),
        ([USER, USER, ASSISTANT, USER], 1),
    ],
)
def test_the_request_before_ended_with_the_message_that_was_answered(messages: list[Any], index: int) -> None:
    assert end_of_request_before(messages) == index


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (ModelOptions(), {}),
        (ModelOptions(thinking="adaptive"), {"thinking": {"type": "adaptive"}}),
        (ModelOptions(thinking=2048), {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (ModelOptions(effort="low"), {"output_config": {"effort": "low"}}),
    ],
)
def test_the_options_of_the_model_are_sent(options: ModelOptions, fields: dict[str, Any]) -> None:
    body = a_request(options=options).body([USER], marked=())

    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == fields


def test_a_schema_that_the_provider_takes_is_its_own_format() -> None:
    schema = {**CITY, "additionalProperties": False}
    request = a_request(schema)

    assert not request.answers_by_tool
    assert request.body([USER], marked=())["output_config"]["format"] == {
        "type": "json_schema",
        "schema": schema,
    }


@pytest.mark.parametrize(
    "schema",
    [
        CITY,
        {},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {**CITY, "additionalProperties": False, "properties": {"city": {"type": "string", "maxLength": 3}}},
        {"type": ["object", "null"]},
        {"type": "object", "properties": {"a": True}},
    ],
)
def test_any_other_schema_is_that_of_a_tool(schema: dict[str, Any]) -> None:
    request = a_request(schema)

    assert request.answers_by_tool
    (tool,) = json.loads(request.text([USER], marked=()))["tools"]
    assert (tool["name"], tool["input_schema"]) == (STRUCTURED_OUTPUT, model_schema_of(schema).schema)
    assert "output_config" not in request.body([USER], marked=())


def test_a_summary_is_requested_from_the_provider() -> None:
    body = a_request().body([USER], marked=(), compacts=True)

    assert body["context_management"]["edits"][0]["type"] == "compact_20260112"


def test_a_history_that_begins_with_the_assistant_gets_a_beginning() -> None:
    messages = [
        Message.of(role="system", content="s"),
        Message.of(role="assistant", content="How can I help?"),
        Message.of(role="user", content=[{"type": "text", "text": " "}, {"type": "text", "text": "So."}]),
    ]

    posted = posted_messages(messages)

    assert [message["role"] for message in posted] == ["user", "assistant", "user"]
    assert posted[0] == BEGINNING
    assert [block["text"] for block in posted[2]["content"]] == ["So."]


def test_thinking_takes_no_mark() -> None:
    message = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}

    assert "cache_control" not in str(a_request().body([message], marked={0})["messages"])
