"""legacy_sse: the older HTTP transport of MCP: one stream for all messages to us, a POST for each of ours.

Written here, because the library's own reads events of up to 1 MiB only and logs what it cannot parse.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from app.tools.mcp.limits import MAX_VALUES, ResponseLimit, read_json
from app.tools.mcp.oauth.endpoints import OAuthFailed

_Incoming = SessionMessage | Exception
_Streams = tuple[MemoryObjectReceiveStream[_Incoming], MemoryObjectSendStream[SessionMessage]]


class SseFailed(Exception):
    """The server's stream is not one of MCP, or refers to another server."""


@asynccontextmanager
async def legacy_sse(
    url: str, http: httpx2.AsyncClient, *, limit: ResponseLimit, write_s: float
) -> AsyncGenerator[_Streams]:
    """Open the stream while the body runs; raises `SseFailed` and httpx's errors.

    An event over the limit ends the connection. So does a message that the server does not accept within
    `write_s`: no other one could be sent.
    """
    reader_end, reading = anyio.create_memory_object_stream[_Incoming](0)
    writing, writer_end = anyio.create_memory_object_stream[SessionMessage](0)
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    with reader_end, reading, writing, writer_end:
        async with http.stream("GET", url, headers=headers) as response, anyio.create_task_group() as tasks:
            response.raise_for_status()
            events = httpx2.EventSource(response, max_event_size=limit.max_bytes)
            endpoint = await tasks.start(_read, events, url, reader_end, limit)
            tasks.start_soon(_write, http, endpoint, writer_end, reader_end, write_s)
            try:
                yield reading, writing
            finally:
                tasks.cancel_scope.cancel()


async def _read(
    events: httpx2.EventSource,
    url: str,
    messages: MemoryObjectSendStream[_Incoming],
    limit: ResponseLimit,
    *,
    task_status: TaskStatus[str],
) -> None:
    has_endpoint = False
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.TransportError):
        async with messages:
            try:
                async for event in events:
                    if event.event == "endpoint" and not has_endpoint:
                        task_status.started(_endpoint(url, event.data))
                        has_endpoint = True
                    elif event.event == "message" and event.data:
                        text, values = await read_json(event.data.encode())
                        if values > MAX_VALUES:
                            limit.exceeded = True
                            return
                        await messages.send(_parsed(text))
                    else:
                        # It counts as a message, of which the server may send so many only.
                        await messages.send(ValueError())
            except httpx2.SSEError:
                # It is too long, or not a stream of events.
                limit.exceeded = has_endpoint
    if not has_endpoint:
        raise SseFailed("The server's stream ends before it names its endpoint.")


def _endpoint(url: str, reference: str) -> str:
    """Where messages are sent to: at the same server, or secrets in headers would reach another."""
    endpoint = urljoin(url, reference)
    if urlsplit(endpoint)[:2] != urlsplit(url)[:2]:
        raise SseFailed("The server's endpoint is at another server.")
    return endpoint


async def _write(
    http: httpx2.AsyncClient,
    endpoint: str,
    messages: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[_Incoming],
    write_s: float,
) -> None:
    try:
        async with messages:
            async for message in messages:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                headers = {"content-type": "application/json"}
                with anyio.fail_after(write_s):
                    async with http.stream("POST", endpoint, content=text, headers=headers) as response:
                        response.raise_for_status()
    except (
        httpx2.HTTPError,
        TimeoutError,
        OAuthFailed,
        anyio.BrokenResourceError,
        anyio.ClosedResourceError,
    ):
        # The message was not taken, so no response will arrive: let waiting requests fail.
        await incoming.aclose()


def _parsed(text: bytes) -> _Incoming:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error
