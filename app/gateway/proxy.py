"""The gateway: agents call it, it calls the Messages API.

Bytes pass through untouched and at once. Each answer is folded on its way into what it used, and
that is noted before the agent can read it.
"""

import asyncio
import json
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import httpx
import structlog

from app.errors import AppError
from app.gateway.lane import Call, CallRefused, CallSize, Lane, LaneLimits, LaneLinks
from app.gateway.provider import COUNT_TOKENS, MESSAGES, Provider
from app.gateway.wire import StreamFold, whole_message
from app.loopback import Dropped, Receive, Scope, Send, hung_up, listening, whole_body
from app.usage import BYTES_PER_TOKEN, TokenUsage

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

HEAR_OUT_S = 0.02
"""How long what is on its way is read after the agent hung up."""

HEAR_OUT_TURNS = 20
"""And for how many turns of the event loop, each of which may read a chunk."""

_NOT_PASSED_BACK = {b"connection", b"transfer-encoding", b"keep-alive", b"date", b"server"}
_UNKNOWN = (404, "not_found_error", "not found")
_ENDED = (403, "permission_error", "this run has ended")
_REFUSED = (402, "billing_error", "this run may not call any more")
_UNREACHABLE = (502, "api_error", "the provider cannot be reached")


class Address(NamedTuple):
    """Where a lane is, or will be: its token, worth something there only, and its URL."""

    token: str
    url: str


class Gateway:
    """`async with Gateway(...) as gateway:` listens on loopback."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._lanes: dict[str, Lane] = {}
        self._url = ""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._url = await self._stack.enter_async_context(listening(self._answer))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        await self._stack.aclose()

    def address(self) -> Address:
        """An address that nothing is at yet."""
        token = secrets.token_urlsafe(24)
        return Address(token, f"{self._url}/{token}")

    def open(self, run_id: str, limits: LaneLimits, links: LaneLinks, *, at: Address | None = None) -> Lane:
        """A lane for one run."""
        address = at or self.address()
        lane = Lane(run_id, address.token, address.url, limits, links)
        self._lanes[address.token] = lane
        return lane

    async def close(self, lane: Lane) -> None:
        """End a run's lane: its token is worth nothing from now on."""
        self._lanes.pop(lane.token, None)
        await lane.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, _, rest = scope["path"].partition("/")
        token, _, path = rest.partition("/")
        path = f"/{path}"
        body = await whole_body(receive)
        if scope["method"] != "POST" or path not in {MESSAGES, COUNT_TOKENS}:
            await _send_error(send, *_UNKNOWN)
        elif (lane := self._lanes.get(token)) is None:
            await _send_error(send, *_ENDED)
        elif path == COUNT_TOKENS:
            await _Exchange(self._provider, scope, receive, send).carry(COUNT_TOKENS, body, call=None)
        else:
            await self._message(lane, scope, body, receive=receive, send=send)

    async def _message(self, lane: Lane, scope: Scope, body: bytes, *, receive: Receive, send: Send) -> None:
        try:
            with structlog.contextvars.bound_contextvars(run_id=lane.run_id):
                async with lane.call(lambda: _size(body)) as call:
                    await _Exchange(self._provider, scope, receive, send).carry(MESSAGES, body, call=call)
        except CallRefused as refused:
            await _send_error(send, *(_ENDED if refused.refusal == "ended" else _REFUSED))


class _Exchange:
    """One request and its answer."""

    def __init__(self, provider: Provider, scope: Scope, receive: Receive, send: Send) -> None:
        self._provider = provider
        self._scope = scope
        self._receive = receive
        self._send = send

    async def carry(self, path: str, body: bytes, *, call: Call | None) -> None:
        """Ask, and pass the answer back; when the agent hangs up, hear out what is on its way."""
        request = self._provider.request(
            path, body, self._scope["headers"], query=self._scope["query_string"]
        )
        passing = asyncio.create_task(self._pass(request, call))
        leaving = asyncio.create_task(hung_up(self._receive))
        try:
            await asyncio.wait({passing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not passing.done():
                await asyncio.wait({passing}, timeout=HEAR_OUT_S)
                # A loop that was busy for so long has yet to read what lies there.
                for _ in range(HEAR_OUT_TURNS):
                    await asyncio.sleep(0)
        finally:
            leaving.cancel()
            passing.cancel()
            # What a message used is noted before its call is over, whatever hurry others are in.
            await _to_the_end(asyncio.wait({passing, leaving}))
        if not passing.cancelled() and (error := passing.exception()) is not None:
            raise error

    async def _pass(self, request: httpx.Request, call: Call | None) -> None:
        try:
            response = await self._provider.send(request)
        except httpx.HTTPError as error:
            log.warning("the provider cannot be reached", reason=type(error).__name__)
            await _send_error(self._send, *_UNREACHABLE)
            return
        try:
            await self._send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": [
                        (name, value)
                        for name, value in response.headers.raw
                        if name.lower() not in _NOT_PASSED_BACK
                    ],
                }
            )
            if call is None or response.is_error:
                await self._bytes(response)
            elif response.headers.get("content-type", "").startswith("text/event-stream"):
                await self._stream(response, call)
            else:
                await self._whole(response, call)
            await self._send({"type": "http.response.body", "body": b""})
        except (httpx.HTTPError, AppError) as error:
            # The provider broke off in the middle of its answer, or it could not be noted; so do we.
            raise Dropped from error
        finally:
            await response.aclose()

    async def _bytes(self, response: httpx.Response) -> None:
        async for chunk in response.aiter_raw():
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _stream(self, response: httpx.Response, call: Call) -> None:
        fold = StreamFold(response.headers.get("request-id"))
        try:
            async for chunk in response.aiter_raw():
                if fold.feed(chunk) and fold.message is not None:
                    # Before the agent reads it: what somebody was shown is noted.
                    (call.closed if fold.message.complete else call.opened)(fold.message)
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            noted, message = fold.message, fold.cut_off()
            if message is not None and message is not noted:
                call.closed(message)
            if message is not None and not message.complete:
                await _to_the_end(self._count(response, fold, call))

    async def _count(self, response: httpx.Response, fold: StreamFold, call: Call) -> None:
        """What came of a message that was cut off, by the provider's own count."""
        # Before anything else: nothing more is made for nobody.
        await response.aclose()
        message = fold.cut_off()
        if message is not None:
            count = await self._provider.count(message.model, fold.received())
            call.closed(fold.cut_off(counted=count) or message)

    async def _whole(self, response: httpx.Response, call: Call) -> None:
        # An agent can do nothing with half a JSON object, so it gets the whole once it is noted.
        body = b"".join([chunk async for chunk in response.aiter_raw()])
        message = whole_message(body, request_id=response.headers.get("request-id"))
        if message is None:
            log.error("an answer nobody understands", request_id=response.headers.get("request-id"))
        else:
            call.closed(message)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


def _size(body: bytes) -> CallSize:
    """The most a call may use: its prompt, about, and the longest answer it asks for."""
    try:
        asked = json.loads(body)
        longest = TokenUsage(
            input_tokens=len(body) // BYTES_PER_TOKEN, output_tokens=max(0, int(asked["max_tokens"]))
        )
        return CallSize(str(asked["model"]), longest)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        # The provider will refuse it; nothing is used.
        return CallSize("", TokenUsage())


async def _to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Do it all, however often we are cancelled meanwhile; then be cancelled."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def _send_error(send: Send, status: int, kind: str, message: str) -> None:
    error: Mapping[str, Any] = {"type": "error", "error": {"type": kind, "message": message}}
    headers = [(b"content-type", b"application/json")]
    if status != _UNREACHABLE[0]:
        # Another try would be refused as well.
        headers.append((b"x-should-retry", b"false"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(error).encode()})
