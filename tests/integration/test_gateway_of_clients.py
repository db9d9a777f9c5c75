"""What the gateway forwards for clients' own agents: the same bytes in both directions."""

import asyncio
from typing import Any

import pytest

from app.gateway.channel import CallRefused
from app.gateway.client.answer import PassedAnswer
from app.gateway.client.request import ClientRequest
from app.gateway.upstream import COUNT_TOKENS, MESSAGES
from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from tests.integration.gateway_seam import PROVIDER_KEY, gateway_to

BODY = (
    b' { "max_tokens":1.0,\t"model" : "claude-haiku-5-5", "messages":[], "new":"\\u00e9\xc3\xa9 web_fetch"}\n'
)
ANSWER = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"claude-haiku-5-5",'
    b'"usage":{"input_tokens":3,"output_tokens":1}}}\n\n: a comment\r\n\r\nevent: new\ndata: {"a" :1}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":5}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def a_request(path: str) -> ClientRequest:
    headers = [(b"x-api-key", b"rt_1"), (b"anthropic-beta", b"a"), (b"anthropic-beta", b"b,c")]
    return ClientRequest.read(path, BODY, {"headers": headers, "query_string": b"beta=true&a=%20"})


async def waits() -> Any:
    """The client neither sends more nor leaves."""
    await asyncio.Event().wait()


async def never_sent(message: Any) -> None:
    raise AssertionError(message)


@pytest.mark.parametrize("path", [MESSAGES, COUNT_TOKENS])
async def test_bytes_pass_as_they_are_with_the_providers_key(path: str) -> None:
    received: list[tuple[Scope, bytes]] = []
    sent: list[dict[str, Any]] = []

    async def provider(scope: Scope, receive: Receive, send: Send) -> None:
        received.append((scope, await read_body(receive)))
        headers = [(b"content-type", b"text/event-stream"), (b"request-id", b"req_1"), (b"set-cookie", b"a")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": ANSWER})

    async def take(message: Any) -> None:
        sent.append(message)

    async with serve_on_loopback(provider) as url, gateway_to(url) as seam:
        channel, answer = seam.channel_with(of_client=True), PassedAnswer(take)
        if path == MESSAGES:
            await seam.gateway.serve_client(channel, a_request(path), waits, answer.send)
        else:
            await seam.gateway.count_for_client("account", a_request(path), waits, answer.send)
        ((scope, body),) = received
        charged = [message.usage.output_tokens for message in seam.noted.closed]

    headers = [(name, value) for name, value in scope["headers"] if name.startswith((b"x-api", b"anthropic"))]
    assert body == BODY
    assert scope["query_string"] == b"beta=true&a=%20"
    assert sorted(headers) == [
        (b"anthropic-beta", b"a"),
        (b"anthropic-beta", b"b,c"),
        (b"x-api-key", PROVIDER_KEY.encode()),
    ]
    assert b"".join(message.get("body", b"") for message in sent) == ANSWER
    assert dict(sent[0]["headers"]) == {b"content-type": b"text/event-stream", b"request-id": b"req_1"}
    assert charged == ([5] if path == MESSAGES else [])


async def test_a_call_that_credit_does_not_cover_is_not_made() -> None:
    async with gateway_to("http://127.0.0.1:1") as seam:
        seam.noted.refusal = "credit"
        with pytest.raises(CallRefused, match="credit"):
            await seam.gateway.serve_client(
                seam.channel_with(of_client=True), a_request(MESSAGES), waits, never_sent
            )
    assert seam.noted.sent == []


async def test_an_unusable_answer_stops_no_other_call_of_a_client() -> None:
    async with gateway_to("http://127.0.0.1:1") as seam:
        of_client, of_ours = seam.channel_with(of_client=True), seam.channel_with()
        for channel in (of_client, of_ours):
            channel.block("answer")

    assert (of_client.exhausted_limit, of_ours.exhausted_limit) == (None, "answer")
