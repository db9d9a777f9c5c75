"""HTTP to MCP servers, with bounds on what one answer may hold and how long it may take."""

import asyncio
from collections.abc import AsyncIterator

import httpx2

from app.concurrency.time_slice import TimeSlice
from app.tools.mcp_limits import MAX_VALUES, ResponseLimit, count_values

_RECONNECT_S = 1.0
"""The least time between two attempts to pick up a broken answer, whatever the server asks for."""


class AnswerRefused(httpx2.StreamError):
    """An answer is larger, or takes longer, than it may."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Passes requests on, and answers back up to their limits."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: ResponseLimit, *, answer_s: float) -> None:
        """`answer_s` is the longest an answer may take from its first byte to its last."""
        self._inner = inner
        self._limit = limit
        self._answer_s = answer_s
        self._turn = asyncio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx."""
        if request.method == "GET" and "last-event-id" not in request.headers:
            # A stream of what the server says unasked: nobody here would listen to it.
            return httpx2.Response(405, request=request)
        if request.method == "GET":
            async with self._turn:
                await asyncio.sleep(_RECONNECT_S)
        # A small answer could be unpacked to a huge one.
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            message = "The MCP server compresses its answer, though it was asked not to."
            raise AnswerRefused(message)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_BoundedStream(response, self._limit, self._answer_s),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """See httpx."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """Whole lines of an answer, each looked at before anybody parses it."""

    def __init__(self, response: httpx2.Response, limit: ResponseLimit, answer_s: float) -> None:
        self._response = response
        self._limit = limit
        self._answer_s = answer_s

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
            # Only in what is new: an answer may come byte by byte.
            if end := max(line.rfind(mark, len(line) - len(chunk)) for mark in (b"\n", b"\r")) + 1:
                values += count_values(line[:end])
                if values > MAX_VALUES:
                    raise self._too_large()
                yield bytes(line[:end])
                del line[:end]
        if values + count_values(line) > MAX_VALUES:
            raise self._too_large()
        yield bytes(line)

    async def aclose(self) -> None:
        await self._response.aclose()

    async def _chunks(self) -> AsyncIterator[bytes]:
        """As they come, until the answer has taken too long."""
        assert isinstance(self._response.stream, httpx2.AsyncByteStream)  # noqa: S101 - an async client's
        chunks = aiter(self._response.stream)
        deadline = asyncio.get_running_loop().time() + self._answer_s
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                message = "The MCP server's answer took too long."
                raise AnswerRefused(message) from error
            yield chunk

    def _too_large(self) -> AnswerRefused:
        self._limit.exceeded = True
        return AnswerRefused("The MCP server's answer is too large.")
