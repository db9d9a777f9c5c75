import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.executors.claude_agent.process.warm_up import send_warm_up_answer
from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from app.simulator.script import HttpError, Reply, Text, Thinking, ToolUse, in_turn
from app.usage.records import TokenUsage
from tests.integration.gateway_seam import (
    MESSAGE_REQUEST,
    MODEL,
    PROVIDER_KEY,
    STREAMED,
    WORDS,
    gateway_to,
    the_seam,
)

FULL = Reply(
    [Thinking("hm, let me see"), Text("Grüße aus 東京\n"), ToolUse("clock", {"zone": "UTC"})],
    usage={"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 7},
    final_usage={"output_tokens": 99},
)


def comparable(response: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    """What an agent can tell of an answer."""
    ours = {"transfer-encoding", "date", "server", "connection"}
    headers = sorted((name, value) for name, value in response.headers.items() if name not in ours)
    return response.status_code, response.content, headers


@pytest.mark.parametrize("request_body", [MESSAGE_REQUEST, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "answer",
    [
        FULL,
        Reply([]),
        Reply([Text("x" * 200_000)]),
        Reply([Text(WORDS)], error_after=(0, "overloaded_error")),
        HttpError(400, "invalid_request_error", "prompt is too long"),
        HttpError(429, "rate_limit_error", headers={"retry-after": "7", "request-id": "req_429"}),
        HttpError(529, "overloaded_error", headers={"x-should-retry": "true"}),
        HttpError(500),
    ],
    ids=["full", "empty", "long", "error event", "400", "429", "529", "500"],
)
async def test_an_agent_hears_what_it_would_hear_without_a_gateway(
    answer: Reply | HttpError, request_body: dict[str, Any]
) -> None:
    async with the_seam(lambda _: answer) as seam:
        through = await seam.send_message(request_body)
        direct = await seam.agent.post(f"{seam.simulator.url}/v1/messages", json=request_body)

    assert comparable(through) == comparable(direct)
    if isinstance(answer, HttpError):
        assert (through.status_code, seam.noted.closed) == (answer.status, [])


@pytest.mark.parametrize("request_body", [MESSAGE_REQUEST, STREAMED], ids=["whole", "streamed"])
async def test_a_message_is_closed_with_its_last_number(request_body: dict[str, Any]) -> None:
    async with the_seam(in_turn(FULL)) as seam:
        await seam.send_message(request_body)

    message = seam.noted.last
    assert message.usage == TokenUsage(input_tokens=10, output_tokens=99, cache_read_tokens=7)
    assert (message.message_id, message.model) == (FULL.message_id, MODEL)
    assert (message.complete, message.output_estimated, message.whole_blocks) == (True, False, 3)
    assert len(seam.noted.closed) == 1
    assert (len(seam.noted.sent), len(seam.noted.opened)) == (1, 1)
    assert list(seam.channel.messages) == [FULL.message_id]


async def test_the_providers_key_is_added_and_the_agents_own_goes_no_further() -> None:
    async with the_seam(in_turn(FULL), accepted_keys=frozenset({PROVIDER_KEY})) as seam:
        seam.agent.headers["proxy-authorization"] = "Basic agents-own"
        seam.agent.headers["anthropic-beta"] = "one,two"
        seam.agent.cookies.set("session", "agents-own")
        answer = await seam.send_message(params={"beta": "true"})

    assert answer.status_code == 200
    (request,) = seam.simulator.requests
    assert request.headers["x-api-key"] == PROVIDER_KEY
    assert request.headers["anthropic-beta"] == "one,two"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.body == STREAMED
    assert "agents-own" not in str(request.headers)
    assert seam.channel.token not in str(request.headers)


async def test_a_request_in_chunks_arrives_whole() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        body = json.dumps(STREAMED).encode()
        for start in range(0, len(body), 10):
            yield body[start : start + 10]

    async with the_seam(in_turn(FULL)) as seam:
        answer = await seam.agent.post(f"{seam.channel.url}/v1/messages", content=pieces())

    assert answer.status_code == 200
    (request,) = seam.simulator.requests
    assert request.body == STREAMED
    assert "transfer-encoding" not in request.headers
    assert int(request.headers["content-length"]) == len(json.dumps(STREAMED))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("HEAD", "/"),
        ("POST", "/v1/models"),
        ("GET", "/v1/models"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages/"),
        ("POST", "/V1/messages"),
        ("PUT", "/v1/messages"),
        ("POST", ""),
    ],
)
async def test_nothing_else_is_passed_on(method: str, path: str) -> None:
    async with the_seam(in_turn(FULL)) as seam:
        answer = await seam.agent.request(
            method, seam.channel.url + path, content=json.dumps(MESSAGE_REQUEST)
        )

    assert answer.status_code == 404
    assert seam.simulator.requests == []
    if method != "HEAD":
        assert answer.json()["error"]["type"] == "not_found_error"


async def test_a_token_is_worth_nothing_before_or_after_its_run() -> None:
    async with the_seam(in_turn(FULL)) as seam:
        await seam.gateway.close_channel(seam.channel)
        ended = await seam.send_message()
        counted = await seam.agent.post(f"{seam.channel.url}/v1/messages/count_tokens", json=MESSAGE_REQUEST)
        base = seam.channel.url.removesuffix(seam.channel.token)
        guessed = await seam.agent.post(f"{base}guess/v1/messages", json=MESSAGE_REQUEST)

    assert [answer.status_code for answer in (ended, counted, guessed)] == [403] * 3
    assert ended.json()["error"]["type"] == "permission_error"
    assert ended.headers["x-should-retry"] == "false"
    assert seam.simulator.requests == []


async def test_a_call_beyond_its_limits_never_reaches_the_provider() -> None:
    async with the_seam(lambda _: Reply([Text("hi")])) as seam:
        channel = seam.channel_with(max_turns=1)
        answers = [await seam.agent.post(f"{channel.url}/v1/messages", json=STREAMED) for _ in range(2)]
        seam.noted.refusal = "credit"
        answers.append(await seam.send_message())

    assert [answer.status_code for answer in answers] == [200, 402, 402]
    assert answers[-1].json()["error"]["type"] == "billing_error"
    assert answers[-1].headers["x-should-retry"] == "false"
    assert len(seam.simulator.requests) == 1
    assert (channel.refused, seam.channel.refused) == ("turns", "credit")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": "m", "max_tokens": Infinity}', b"\xff"])
async def test_a_body_without_sense_is_the_providers_to_refuse(body: bytes) -> None:
    received: list[bytes] = []

    async def refuse(_scope: Scope, receive: Receive, send: Send) -> None:
        received.append(await read_body(receive))
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    async with serve_on_loopback(refuse) as url, gateway_to(url) as seam:
        channel = seam.channel_with(max_total_tokens=100)
        answer = await seam.agent.post(f"{channel.url}/v1/messages", content=body)

    assert (answer.status_code, answer.content) == (400, b"no")
    assert received == [body]


async def test_counting_tokens_is_passed_on_and_costs_nothing() -> None:
    async with the_seam(in_turn(), accepted_keys=frozenset({PROVIDER_KEY})) as seam:
        channel = seam.channel_with(max_turns=0)
        answer = await seam.agent.post(
            f"{channel.url}/v1/messages/count_tokens?beta=true", json=MESSAGE_REQUEST
        )

    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 9})
    assert (seam.noted.opened, seam.noted.closed, channel.messages, channel.refused) == ([], [], {}, None)


async def test_many_agents_are_answered_at_once_and_not_mixed_up() -> None:
    def echo(request: Any) -> Reply:
        return Reply([Text(request.last_text)], delta_delay_s=0.001)

    async with the_seam(echo) as seam:

        async def send_message(number: int) -> None:
            channel = seam.channel_with()
            prompt = {"role": "user", "content": f"say number-{number} again"}
            answer = await seam.agent.post(
                f"{channel.url}/v1/messages", json={**STREAMED, "messages": [prompt]}
            )
            assert f"number-{number}" in answer.text
            assert len(channel.messages) == 1
            assert next(iter(channel.messages)) in answer.text

        await asyncio.gather(*map(send_message, range(50)))

    assert len({message.message_id for message in seam.noted.closed}) == 50


async def test_a_call_that_warms_a_process_up_reaches_neither_the_provider_nor_billing() -> None:
    async with the_seam(in_turn(FULL)) as seam:
        address = seam.gateway.new_address()
        url = f"{address.url}/v1/messages"
        before = await seam.agent.post(url, json=STREAMED)
        with seam.gateway.answering(address, send_warm_up_answer):
            answered = await seam.agent.post(url, json=STREAMED)
            counted = await seam.agent.post(f"{url}/count_tokens", json=STREAMED)
            unreadable = [await seam.agent.post(url, content=body) for body in (b"", b"[]", b"{}", b"\xff")]
        after = await seam.agent.post(url, json=STREAMED)

    events = [json.loads(line[6:]) for line in answered.text.splitlines() if line.startswith("data: ")]
    assert (before.status_code, counted.status_code, after.status_code) == (403, 403, 403)
    assert {response.status_code for response in unreadable} == {400}
    assert [event["type"] for event in events][:2] == ["message_start", "content_block_start"]
    assert events[0]["message"]["model"] == MODEL
    assert {*events[0]["message"]["usage"].values(), *events[-2]["usage"].values()} == {0}
    assert (seam.simulator.requests, seam.noted.opened, seam.noted.sent) == ([], [], [])
