"""Simulator: a scripted Messages API on a loopback port that records everything it sent."""

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from app.platform.server import loopback
from app.simulator import wire
from app.simulator.compression import Compressor
from app.simulator.script import Answer, ApiRequest, HttpError, Reply, Responder
from app.storable import identifier

MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")

_UNKNOWN_PATH = HttpError(404, "not_found_error", "not found")
_INVALID = HttpError(400, "invalid_request_error", "messages: Input should be a valid list")
_BAD_KEY = HttpError(401, "authentication_error", "invalid x-api-key")


@dataclass(slots=True)
class RecordedMessage:
    """What the simulator sent of one message; receipts are compared with it."""

    message_id: str
    model: str
    start_usage: dict[str, Any]
    final_usage: dict[str, Any] | None = None
    """None until the last numbers were sent."""
    sent_output: str = ""
    """Text, thinking and tool input that were sent."""
    first_byte_at: float | None = None
    """When its id was sent, in seconds of the monotonic clock; None until then."""
    disconnected: bool = False
    """Whether the client disconnected before the end."""


@dataclass(slots=True)
class Simulator:
    """`async with Simulator(responder) as simulator:` serves at `simulator.url`."""

    responder: Responder
    accepted_keys: frozenset[str] | None = None
    """The accepted keys; None accepts any."""
    releases: Mapping[str, str] = field(default_factory=dict)
    """By alias: the dated release that answers, and that the answer names as its model."""
    requests: list[ApiRequest] = field(default_factory=list)
    sent: list[RecordedMessage] = field(default_factory=list)
    url: str = ""
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        """Listen."""
        self.url = await self._stack.enter_async_context(loopback.serve_on_loopback(self.handle))
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop listening; open responses are cut off."""
        await self._stack.aclose()

    async def handle(self, scope: loopback.Scope, receive: loopback.Receive, send: loopback.Send) -> None:
        body = await loopback.read_body(receive)
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        path, method = scope["path"], scope["method"]
        if self.accepted_keys is not None and headers.get("x-api-key") not in self.accepted_keys:
            await send_error(send, _BAD_KEY)
        elif method == "GET" and path.endswith("/v1/models"):
            models = [{"type": "model", "id": name, "display_name": name} for name in MODELS]
            page = {"data": models, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
            await send_json(send, 200, page)
        elif method == "POST" and "/v1/messages" in path and not wire.is_request(json.loads(body)):
            await send_error(send, _INVALID)
        elif method == "POST" and path.endswith("/v1/messages/count_tokens"):
            await send_json(send, 200, {"input_tokens": wire.count_tokens(json.loads(body))})
        elif method == "POST" and path.endswith("/v1/messages"):
            request = ApiRequest(headers, json.loads(body))
            self.requests.append(request)
            await self._respond(request, receive, send)
        else:
            await send_error(send, _UNKNOWN_PATH)

    def record(self, _request: ApiRequest, message: RecordedMessage) -> None:
        self.sent.append(message)

    async def _respond(self, request: ApiRequest, receive: loopback.Receive, send: loopback.Send) -> None:
        answer = await _call_responder(self.responder, request)
        if isinstance(answer, HttpError):
            await send_error(send, answer)
            return
        await asyncio.sleep(answer.headers_delay_s)
        requested = request.body["model"]
        model = answer.model or self.releases.get(requested, requested)
        sent = RecordedMessage(answer.message_id, model, answer.usage)
        self.record(request, sent)
        if not request.body.get("stream"):
            sent.final_usage = {**answer.usage, **answer.final_usage}
            sent.first_byte_at = time.monotonic()
            await _send_whole(answer, wire.message(answer, model=model), send)
            return
        async with _until_disconnected(receive, sent):
            await _stream(answer, wire.events(answer, model=model), sent, send)


async def _stream(
    reply: Reply,
    events: list[dict[str, Any]],
    sent: RecordedMessage,
    send: loopback.Send,
) -> None:
    compressor = Compressor(reply.encoding)
    await send(_start(200, "text/event-stream", _headers_of(reply)))
    for index, event in enumerate(events):
        if reply.hold is not None and reply.hold.index == index:
            reply.hold.reached.set()
            await reply.hold.until.wait()
        if reply.cut_after == index:
            raise loopback.DropConnection
        if reply.error_after is not None and reply.error_after[0] == index:
            failure = HttpError(500, reply.error_after[1])
            await send(_chunk(compressor.compress(wire.sse(wire.error(failure)))))
            break
        if event["type"] == "content_block_delta":
            await asyncio.sleep(reply.delta_delay_s)
            sent.sent_output += wire.output_of(event["delta"])
        if event["type"] == "message_delta":
            sent.final_usage = {**reply.usage, **reply.final_usage}
        if event["type"] == "message_start":
            sent.first_byte_at = time.monotonic()
        await send(_chunk(compressor.compress(wire.sse(event))))
    await send({"type": "http.response.body", "body": compressor.finish()})


async def _send_whole(reply: Reply, message: dict[str, Any], send: loopback.Send) -> None:
    compressor = Compressor(reply.encoding)
    body = compressor.compress(json.dumps(message).encode()) + compressor.finish()
    await send(_start(200, "application/json", _headers_of(reply)))
    await send({"type": "http.response.body", "body": body})


def _headers_of(reply: Reply) -> dict[str, str]:
    encoding = {} if reply.encoding is None else {"content-encoding": reply.encoding}
    return {"request-id": f"req_{identifier(reply.message_id)}", **encoding, **reply.headers}


@asynccontextmanager
async def _until_disconnected(receive: loopback.Receive, sent: RecordedMessage) -> AsyncIterator[None]:
    """Stop generating when the client disconnects, as the API does."""
    sending = asyncio.current_task()

    async def watch() -> None:
        await loopback.wait_for_disconnect(receive)
        sent.disconnected = True
        if sending is not None:
            sending.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not sent.disconnected:
            raise
    finally:
        watching.cancel()


async def _call_responder(responder: Responder, request: ApiRequest) -> Answer:
    answer = responder(request)
    return await answer if inspect.isawaitable(answer) else answer


async def send_error(send: loopback.Send, failure: HttpError) -> None:
    await send_json(send, failure.status, wire.error(failure), failure.headers)


async def send_json(
    send: loopback.Send,
    status: int,
    content: dict[str, Any],
    headers: dict[str, str] | None = None,
) -> None:
    """Send an object."""
    await send(_start(status, "application/json", headers or {}))
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


def _start(status: int, content_type: str, headers: dict[str, str]) -> dict[str, Any]:
    lines = {"content-type": content_type, **headers}
    encoded = [(name.encode(), value.encode()) for name, value in lines.items()]
    return {"type": "http.response.start", "status": status, "headers": encoded}


def _chunk(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}
