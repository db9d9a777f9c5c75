"""MessagesClient: calls of the Messages API, whose server is a run's gateway channel."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any, Self

from app import __version__
from app.gateway.answers.event_lines import EventLine, EventLines
from app.gateway.channel import Channel
from app.gateway.upstream import MESSAGES
from app.platform.concurrency.time_slice import SHOWN_S, TimeSlice
from app.platform.server.in_process import InProcessCalls, NoResponse, Response
from app.platform.server.loopback import AsgiApp

HEADERS_TIMEOUT_S = 60.0
IDLE_TIMEOUT_S = 30.0
"""How long nothing may arrive of a message that has begun; the provider sends pings."""

_EVENT_BYTES = 64 * 1024 * 1024
"""The longest event of a message, as the longest line of the CLI."""
_DELTA = b"content_block_delta"
_NO_EVENT = "an event is no object"
_TOO_LONG = "an event is too long"
_SUCCESS = range(200, 300)
_HEADERS = (
    (b"accept", b"application/json"),
    (b"content-type", b"application/json"),
    (b"user-agent", f"runtally/{__version__}".encode()),
    (b"anthropic-version", b"2023-06-01"),
)


class CallFailed(Exception):
    """A call got no message; `status` is that of the response, None if there was none."""

    def __init__(
        self, status: int | None, reason: str, *, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.status = status
        self.headers = headers
        self.reason = reason
        """May contain the provider's text: for the log only."""
        super().__init__(reason)


class StreamBroken(Exception):
    """A message that had begun was cut off."""


class MessagesClient:
    """`async with MessagesClient(gateway.handle) as client:`; one for all runs of the process."""

    def __init__(self, gateway: AsgiApp) -> None:
        self._calls = InProcessCalls(
            gateway, headers_timeout_s=HEADERS_TIMEOUT_S, idle_timeout_s=IDLE_TIMEOUT_S
        )

    async def __aenter__(self) -> Self:
        """Open."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Wait for the calls that have not ended."""
        await self._calls.aclose()

    @asynccontextmanager
    async def stream(
        self, channel: Channel, request: str, *, betas: tuple[str, ...] = ()
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Make a call with this JSON; yields the events of the message as the API sends them.

        Raises `CallFailed` if no message begins, and `StreamBroken` while one is read.
        """
        headers = [*_HEADERS, (b"anthropic-beta", ",".join(betas).encode())] if betas else _HEADERS
        call = self._calls.post(f"/{channel.token}{MESSAGES}", request.encode(), headers)
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(call)
                if response.status not in _SUCCESS:
                    raise await _failure(response)
            except NoResponse as error:
                raise CallFailed(None, str(error)) from error
            yield _events(response.chunks)


async def _failure(response: Response) -> CallFailed:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    reason = b"".join([chunk async for chunk in response.chunks]).decode(errors="replace")
    return CallFailed(response.status, reason, headers=headers)


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    lines, time_slice, is_shown = EventLines(_EVENT_BYTES), TimeSlice(SHOWN_S), False
    try:
        async for chunk in chunks:
            for line in lines.feed(chunk):
                if not line.is_whole:
                    continue
                if line.event == b"error":
                    raise StreamBroken(line.data.decode(errors="replace"))
                if line.event != b"ping" and (line.data or line.dropped_bytes):
                    yield _parsed(line)
                if not is_shown and line.event == _DELTA:
                    # What a client sees first does not wait for what has arrived with it.
                    is_shown = True
                    await asyncio.sleep(0)
                await time_slice.checkpoint()
    except NoResponse as error:
        raise StreamBroken(str(error)) from error


def _parsed(line: EventLine) -> dict[str, Any]:
    if line.dropped_bytes:
        raise StreamBroken(_TOO_LONG)
    try:
        event = json.loads(line.data.decode())
    except (ValueError, RecursionError) as error:
        raise StreamBroken(type(error).__name__) from error
    if not isinstance(event, dict):
        raise StreamBroken(_NO_EVENT)
    return event
