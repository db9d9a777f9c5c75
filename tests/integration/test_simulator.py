from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx
import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock

from app.simulator.demo import DemoModel, instance_of
from app.simulator.script import (
    ContentEncoding,
    Hold,
    HttpError,
    Reply,
    Responder,
    Text,
    Thinking,
    ToolUse,
    in_turn,
)
from app.simulator.server import Simulator
from tests.e2e.stories import until
from tests.patience import PATIENCE_S

MESSAGE_REQUEST: dict[str, Any] = {
    "model": "claude-haiku-5-5",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello there"}],
}
BROKEN = (anthropic.APIConnectionError, httpx.TransportError, httpx2.TransportError)
"""The client passes on what its HTTP library raised, and it may use either."""
FULL = Reply(
    [
        Thinking("hm, let me see"),
        Text("one two  three\nfour "),
        ToolUse("clock", {"zone": "UTC", "n": [1, 2]}),
    ],
    usage={"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 7},
    final_usage={"output_tokens": 99},
)


@asynccontextmanager
async def talking(responder: Responder, **options: Any) -> AsyncIterator[tuple[Simulator, AsyncAnthropic]]:
    async with (
        Simulator(responder, **options) as simulator,
        AsyncAnthropic(base_url=simulator.url, api_key="k", max_retries=0) as client,
    ):
        yield simulator, client


async def test_the_official_client_reads_a_stream() -> None:
    async with (
        talking(in_turn(FULL)) as (simulator, client),
        client.messages.stream(**MESSAGE_REQUEST) as stream,
    ):
        kinds = [event.type async for event in stream]
        message = await stream.get_final_message()

    thinking, text, call = message.content
    assert isinstance(thinking, ThinkingBlock)
    assert thinking.thinking == "hm, let me see"
    assert isinstance(text, TextBlock)
    assert text.text == "one two  three\nfour "
    assert isinstance(call, ToolUseBlock)
    assert call.input == {"zone": "UTC", "n": [1, 2]}
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (10, 99)
    assert message.usage.cache_read_input_tokens == 7
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert simulator.sent[0].final_usage == {**FULL.usage, **FULL.final_usage}


async def test_the_official_client_reads_a_whole_body() -> None:
    async with talking(in_turn(FULL)) as (_, client):
        message = await client.messages.create(**MESSAGE_REQUEST)

    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.usage.output_tokens == 99


async def test_it_counts_tokens_and_lists_models() -> None:
    async with talking(in_turn()) as (_, client):
        counted = await client.messages.count_tokens(
            model=MESSAGE_REQUEST["model"], messages=MESSAGE_REQUEST["messages"]
        )
        models = [model.id async for model in client.models.list()]

    assert counted.input_tokens > 0
    assert "claude-haiku-5-5" in models


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (413, anthropic.APIStatusError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (529, anthropic.InternalServerError),
    ],
)
async def test_errors_have_the_apis_shape(status: int, error: type[Exception]) -> None:
    async with talking(in_turn(HttpError(status, "some_error", "sorry"))) as (_, client):
        with pytest.raises(error, match="sorry"):
            await client.messages.create(**MESSAGE_REQUEST)


async def test_a_wrong_key_and_a_wrong_path_are_refused() -> None:
    async with talking(in_turn(), accepted_keys=frozenset({"other"})) as (simulator, client):
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(**MESSAGE_REQUEST)
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            path = await http.get(f"{simulator.url}/v1/files", headers={"x-api-key": "other"})

    assert (path.status_code, path.json()["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"error_after": (3, "overloaded_error")}, anthropic.APIStatusError),
        ({"cut_after": 4, "delta_delay_s": 0.05}, BROKEN),
    ],
    ids=["an error event", "a dropped connection"],
)
async def test_a_stream_breaks_off(how: dict[str, Any], error: Any) -> None:
    async with talking(in_turn(Reply([Text("one two")], **how))) as (simulator, client):
        with pytest.raises(error):
            async with client.messages.stream(**MESSAGE_REQUEST) as stream:
                await stream.get_final_message()

    assert simulator.sent[0].final_usage is None


async def test_a_client_that_hangs_up_is_noticed() -> None:
    hold = Hold(index=4)
    async with talking(in_turn(Reply([Text("one two")], hold=hold))) as (simulator, client):
        async with client.messages.stream(**MESSAGE_REQUEST):
            await hold.reached.wait()
        await until(lambda: simulator.sent[0].disconnected)

    assert simulator.sent[0].final_usage is None
    assert simulator.sent[0].sent_output == "one"


async def test_the_demos_model_uses_the_tools_it_is_offered() -> None:
    tools: list[Any] = [
        {"name": f"mcp__x__core__{name}", "input_schema": {"type": "object"}}
        for name in ("get_current_time", "calculate")
    ]
    async with talking(DemoModel(word_delay_s=0)) as (_, client):

        async def call(prompt: str) -> Any:
            request = {**MESSAGE_REQUEST, "messages": [{"role": "user", "content": prompt}]}
            return (await client.messages.create(**request, tools=tools)).content[-1]

        clock = await call("What time is it in Berlin?")
        sum_ = await call("What is (2 + 3) * 7?")
        chat = await call("Tell me a story")
        result = {"type": "tool_result", "tool_use_id": clock.id, "content": "12:00"}
        messages = [
            {"role": "user", "content": "What time is it?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": clock.id, "name": clock.name, "input": {}}],
            },
            {"role": "user", "content": [result]},
        ]
        answer = await client.messages.create(**{**MESSAGE_REQUEST, "messages": messages}, tools=tools)

    assert (clock.name, clock.input) == ("mcp__x__core__get_current_time", {"timezone": "Europe/Berlin"})
    assert (sum_.name, sum_.input) == ("mcp__x__core__calculate", {"expression": "(2 + 3) * 7"})
    assert "Tell me a story" in chat.text
    (answered,) = answer.content
    assert isinstance(answered, TextBlock)
    assert "12:00" in answered.text
    assert answer.usage.output_tokens == len(answered.text) // 4


def test_the_demos_model_fills_schemas() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 12},
            "kind": {"enum": ["a", "b"]},
            "n": {"type": "integer", "minimum": 3},
            "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
            "optional": {"type": "null"},
        },
        "required": ["city", "kind", "n", "list"],
    }

    assert instance_of(schema) == {"city": "simulated...", "kind": "a", "n": 3, "list": [False, False]}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_it_compresses_although_nobody_accepts_it(encoding: ContentEncoding, *, streamed: bool) -> None:
    hold = Hold(index=6)
    reply = Reply([Text("one two three four")], encoding=encoding, hold=hold if streamed else None)
    identity = {"accept-encoding": "identity"}
    async with (
        Simulator(in_turn(reply)) as simulator,
        httpx.AsyncClient(headers=identity, timeout=PATIENCE_S) as http,
    ):
        request = {**MESSAGE_REQUEST, "stream": streamed}
        async with http.stream("POST", f"{simulator.url}/v1/messages", json=request) as answer:
            pieces = answer.aiter_text()
            text = await anext(pieces)
            # What was sent before the pause can be read during it.
            while streamed and "three" not in text:
                text += await anext(pieces)
            hold.until.set()
            text += "".join([piece async for piece in pieces])

    assert answer.headers["content-encoding"] == encoding
    assert ("message_stop" if streamed else "one two three four") in text


async def test_an_alias_is_answered_by_its_dated_release() -> None:
    releases = {"claude-haiku-4-5": "claude-haiku-4-5-20251001"}
    alias = {**MESSAGE_REQUEST, "model": "claude-haiku-4-5"}
    async with talking(lambda _: Reply([Text("hi")]), releases=releases) as (simulator, client):
        of_alias = await client.messages.create(**alias)
        of_other = await client.messages.create(**MESSAGE_REQUEST)
        async with client.messages.stream(**alias) as stream:
            streamed = await stream.get_final_message()

    assert of_alias.model == streamed.model == "claude-haiku-4-5-20251001"
    assert of_other.model == MESSAGE_REQUEST["model"]
    assert [message.model for message in simulator.sent] == [of_alias.model, of_other.model, of_alias.model]


async def test_an_answer_names_its_request_and_has_further_headers() -> None:
    reply = Reply([Text("hi")], headers={"anthropic-organization-id": "org-1"})
    async with talking(in_turn(reply)) as (_, client):
        answer = await client.messages.with_raw_response.create(**MESSAGE_REQUEST)

    assert answer.headers["request-id"] == f"req_{reply.message_id}"
    assert answer.headers["anthropic-organization-id"] == "org-1"
