"""BoundedTransport: HTTP to MCP servers, with limits on the size and duration of a response."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2

from app.platform.concurrency.time_slice import TimeSlice
from app.platform.outgoing import is_compressed
from app.tools.mcp.limits import MAX_VALUES, ResponseLimit, read_json
from app.tools.mcp.oauth.endpoints import OAuthFailed

CLOSE_S = 1.0
"""How long a server may take to answer that a session has ended."""

_RECONNECT_S = 1.0
"""The minimum time between two attempts to resume a response, whatever the server requests."""


_MESSAGE_S = 5.0
"""How long a server may take to accept a message that is no request."""


class McpResponseRefused(httpx2.StreamError):
    """A response is too large or takes too long, or is cut off."""


_ACCEPTED, _NOT_FOUND, _GATEWAY_TIMEOUT = 202, 404, 504
_UNAVAILABLE = {404, 502, 503, 504}
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, OAuthFailed)


@dataclass(slots=True)
class CallDelivery:
    """What became of the requests that carry one tool call."""

    refused: bool = False
    """Whether the call was not taken: the server does not listen, or does not know the session."""
    unavailable: bool = False
    """Whether the server has not answered: something else has, or nothing, or its answer was cut off."""
    _taken: bool = False

    def record_failure(self, error: Exception) -> None:
        self.unavailable = True
        if isinstance(error, _NOT_SENT):
            self._record_refusal()

    def record_response(self, request: httpx2.Request, response: httpx2.Response) -> None:
        if response.status_code == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._record_refusal()
        self.unavailable = response.status_code in _UNAVAILABLE
        self._taken |= response.is_success

    def _record_refusal(self) -> None:
        """A request was not taken; the library may have sent the same call before."""
        self.refused = not self._taken


_delivery: ContextVar[CallDelivery | None] = ContextVar("mcp_call_delivery", default=None)


@contextmanager
def delivery_of_call() -> Iterator[CallDelivery]:
    """Record the delivery of the tool call that this task makes meanwhile.

    The library copies the context of the call into the task that sends its requests.
    """
    delivery = CallDelivery()
    token = _delivery.set(delivery)
    try:
        yield delivery
    finally:
        _delivery.reset(token)


class McpHttpClient(httpx2.AsyncClient):
    """Answers a tool call in the server's place if it does not, and each message that is no request.

    For an exception of one call the library would end the connection with all others. It waits for the answer
    to a message that is no request before it sends the next one, and uses nothing of it.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        message = json.loads(await request.aread()) if request.method == "POST" else {}
        if request.method == "DELETE":
            # The end of the session: the run waits for it.
            return await self._deliver(request, options, within_s=CLOSE_S)
        if request.method == "POST" and not {"id", "method"} <= message.keys():
            return await self._deliver(
                request, options, within_s=min(_MESSAGE_S, self.timeout.read or _MESSAGE_S)
            )
        if (delivery := _delivery.get()) is None or message.get("method") != "tools/call":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
        except (httpx2.TransportError, httpx2.StreamError, OAuthFailed) as error:
            delivery.record_failure(error)
            return httpx2.Response(_GATEWAY_TIMEOUT, request=request)
        delivery.record_response(request, response)
        return response if response.next_request is None else await _bare(response)

    async def _deliver(
        self, request: httpx2.Request, options: dict[str, Any], *, within_s: float
    ) -> httpx2.Response:
        # The request that a redirection leads to has the same extensions.
        deadline = request.extensions.setdefault("deadline", asyncio.get_running_loop().time() + within_s)
        with suppress(httpx2.TransportError, httpx2.StreamError, OAuthFailed, TimeoutError):
            async with asyncio.timeout_at(deadline):
                return await _bare(await super().send(request, **options), status=_ACCEPTED)
        return httpx2.Response(_ACCEPTED, request=request)


async def _bare(response: httpx2.Response, *, status: int | None = None) -> httpx2.Response:
    """The response without its content, which is not read; with where it redirects to."""
    await response.aclose()
    bare = httpx2.Response(status or response.status_code, request=response.request)
    bare.next_request = response.next_request
    return bare


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Forwards requests, and responses up to their limits."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: ResponseLimit, *, response_s: float) -> None:
        """`response_s` is the longest a response may take from its first byte to its last."""
        self._inner = inner
        self._limit = limit
        self._response_s = response_s
        self._reconnecting = asyncio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and "last-event-id" not in request.headers:
            # The stream of messages that are not responses; we do not use it.
            return httpx2.Response(405, request=request)
        if request.method == "GET":
            async with self._reconnecting:
                await asyncio.sleep(_RECONNECT_S)
        # A small response could be unpacked to a huge one.
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        await _require_identity(response)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_BoundedStream(response, self._limit, self._response_s),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class IdentityTransport(httpx2.AsyncBaseTransport):
    """Forwards requests that forbid compression: a small event could be unpacked to a huge one.

    A response that is an error has no body: it would be read whole before a request is sent again with
    another token.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if not response.is_success:
            await response.aclose()
            return httpx2.Response(response.status_code)
        await _require_identity(response)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _require_identity(response: httpx2.Response) -> None:
    if is_compressed(response):
        await response.aclose()
        raise McpResponseRefused("The MCP server compresses its response, though the request forbids it.")


class _BoundedStream(httpx2.AsyncByteStream):
    """Complete lines of a response, each checked before it is parsed."""

    def __init__(self, response: httpx2.Response, limit: ResponseLimit, response_s: float) -> None:
        self._response = response
        self._limit = limit
        self._response_s = response_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = values = 0
        line = bytearray()
        time_slice = TimeSlice()
        async for chunk in self._chunks():
            held += len(chunk)
            if held > self._limit.max_bytes:
                raise self._too_large()
            await time_slice.checkpoint()
            line += chunk
            # Search only the new chunk: a response may arrive byte by byte.
            if end := max(line.rfind(mark, len(line) - len(chunk)) for mark in (b"\n", b"\r")) + 1:
                lines, found = await read_json(bytes(line[:end]))
                values += found
                if values > MAX_VALUES:
                    raise self._too_large()
                yield lines
                del line[:end]
        lines, found = await read_json(bytes(line))
        if values + found > MAX_VALUES:
            raise self._too_large()
        yield lines

    async def aclose(self) -> None:
        await self._response.aclose()

    async def _chunks(self) -> AsyncIterator[bytes]:
        """The chunks of the response; raises `McpResponseRefused` when it takes too long."""
        assert isinstance(self._response.stream, httpx2.AsyncByteStream)  # noqa: S101 - an async client's
        chunks = aiter(self._response.stream)
        # What is cut off of a stream of events can be resumed.
        is_whole = self._response.headers.get("content-type", "").startswith("application/json")
        delivery = _delivery.get() if is_whole else None
        deadline = asyncio.get_running_loop().time() + self._response_s
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except (TimeoutError, httpx2.TransportError) as error:
                if delivery is not None:
                    delivery.unavailable = True
                message = "The MCP server's response took too long, or was cut off."
                raise McpResponseRefused(message) from error
            yield chunk

    def _too_large(self) -> McpResponseRefused:
        self._limit.exceeded = True
        return McpResponseRefused("The MCP server's response is too large.")
