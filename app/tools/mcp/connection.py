"""ServerConnection: a run's connection to one external MCP server, opened anew after it was lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import structlog
from mcp import Client, MCPError, types
from mcp.client import InputRequiredRoundsExceededError
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import CONNECTION_CLOSED
from pydantic import ValidationError

from app.platform.hops import reason_of
from app.tools.mcp.filter import McpMessageFilter
from app.tools.mcp.http import delivery_of_call
from app.tools.mcp.limits import ResponseLimit
from app.tools.mcp.text import one_line
from runtally.tools.tool import ToolFailed

log = structlog.get_logger(__name__)

# It logs what it cannot parse, which a server chooses; failures are logged here.
logging.getLogger("mcp.client").setLevel(logging.CRITICAL)

CONNECT_S = 10.0
"""How long a server may take to connect and list its tools."""

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
"""Before a connection is opened anew after an attempt that failed; twice as long each time."""
_MAX_ERROR_CHARS = 2_000
_OF_CONNECTION = ("Connection closed", "SSE stream ended", "SSE stream failed")
"""The beginnings of the library's own errors with the code `CONNECTION_CLOSED`."""
_LOST = "The connection to the tool server was lost during the call. The call may have taken effect."
_UNAVAILABLE = "The tool server is not available now."


class ToolResultTooLarge(ToolFailed):
    """The result of a tool exceeds its limit."""

    code = "too_large"


class ToolServerLost(ToolFailed):
    """The external server of a tool cannot be reached, or was lost during the call."""

    code = "tool_server_unavailable"


class McpServerUnavailable(Exception):
    """An MCP server that a run needs does not respond, or lacks a configured tool."""


@dataclass(slots=True)
class Link:
    """One connection, as long as it lasts."""

    client: Client
    messages: McpMessageFilter
    limit: ResponseLimit
    tools: Mapping[str, types.Tool]
    """The configured tools of the server, by their own names."""
    unused: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is lost and no call uses it any more."""
    _calls: int = 0
    """How many calls wait for their results."""
    _lost: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether no other call is made over it; those that wait for their results may still get them."""
        return self._lost or self.messages.ended

    def lose(self) -> None:
        """Make no other call over it."""
        self._lost = True
        if not self._calls:
            self.unused.set()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make a call while the body runs."""
        if self._calls == 0:
            self.messages.begin_call()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self.is_lost:
                self.lose()


OpenLink: TypeAlias = Callable[[AsyncExitStack], Awaitable[Link]]
"""Connects until the stack is closed, by the task that closes it; raises anything."""


class ServerConnection:
    """Each link is owned by a task, because the client's cancel scopes belong to one task."""

    def __init__(self, server: str, open_link: OpenLink) -> None:
        self.server = server
        self._open_link = open_link
        self._ready: asyncio.Future[Link] | None = None
        """The current link, or the one that is being opened."""
        self._holders: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        self._failures = 0
        self._closed = False

    async def open(self) -> Link:
        """Connect; raises `McpServerUnavailable`. Continues if the caller is cancelled, until `aclose`."""
        self._ready = self._start()
        return await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        """Close all links, including one that is being opened; none is opened any more."""
        self._closed = True
        for holder in self._holders:
            holder.cancel()
        await asyncio.gather(*self._holders, return_exceptions=True)

    async def call(
        self, name: str, arguments: dict[str, Any], *, repeatable: bool, on_progress: ProgressFnT
    ) -> types.CallToolResult:
        """Call a tool; raises `ToolFailed` with a text for the model.

        A lost connection is opened anew once. A call that was interrupted is repeated if that is harmless, or
        if the server has not taken it.
        """
        link = await self._current_link()
        try:
            return await self._call(link, name, arguments, on_progress)
        except _Interrupted as interrupted:
            if not repeatable and not interrupted.refused:
                raise ToolServerLost(_LOST) from interrupted
        log.info("mcp_server.call_repeated", server=self.server)
        link = await self._current_link()
        try:
            return await self._call(link, name, arguments, on_progress)
        except _Interrupted as interrupted:
            raise ToolServerLost(_LOST) from interrupted

    def _start(self) -> "asyncio.Future[Link]":
        ready: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        holder = asyncio.create_task(self._hold(ready))
        self._holders.add(holder)
        holder.add_done_callback(self._holders.discard)
        return ready

    async def _hold(self, ready: "asyncio.Future[Link]") -> None:
        link: Link | None = None
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_S):
                    link = await self._open_link(stack)
                self._failures = 0
                ready.set_result(link)
                # The connection is left by the task that made it.
                await link.unused.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, the server cannot be used
            if link is None or not link.unused.is_set():
                log.warning("mcp_server.failed", server=self.server, reason=_kind(error))
        finally:
            if link is not None:
                link.lose()
            if not ready.done():
                self._failures += 1
                ready.set_exception(McpServerUnavailable(self.server))
                # Nothing may wait for it any more.
                ready.exception()

    async def _current_link(self) -> Link:
        """A link that is not known to be lost; raises `ToolServerLost`."""
        async with self._opening:
            if (ready := self._ready) is None or _is_over(ready):
                if ready is not None and ready.exception() is None:
                    ready.result().lose()
                if self._failures:
                    await asyncio.sleep(min(_FIRST_PAUSE_S * 2**self._failures, _LONGEST_PAUSE_S))
                if self._closed:
                    # The call has outlived its run: nothing would close what it opens.
                    raise ToolServerLost(_UNAVAILABLE)
                log.info("mcp_server.reconnecting", server=self.server)
                ready = self._ready = self._start()
        try:
            return await asyncio.shield(ready)
        except McpServerUnavailable as error:
            raise ToolServerLost(_UNAVAILABLE) from error

    async def _call(
        self, link: Link, name: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> types.CallToolResult:
        with link.used(), delivery_of_call() as delivery:
            try:
                return await link.client.call_tool(name, arguments, progress_callback=on_progress)
            except MCPError as error:
                if link.limit.take_exceeded():
                    message = "The tool's result is too large to be read; request less."
                    raise ToolResultTooLarge(message) from error
                if delivery.unavailable or link.messages.ended or _is_of_connection(error):
                    link.lose()
                    raise _Interrupted(refused=delivery.refused) from error
                text = one_line(error.error.message, _MAX_ERROR_CHARS)
                message = f"The tool server answered with an error: {text or error.error.code}"
                raise ToolFailed(message) from error
            except InputRequiredRoundsExceededError as error:
                raise ToolFailed("The tool server asks again and again.") from error
            except ValidationError as error:
                raise ToolFailed("The tool server's answer is not a result of a tool.") from error
            except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
                link.lose()
                raise _Interrupted(refused=delivery.refused) from error


class _Interrupted(Exception):
    """The connection was lost before the result arrived; `refused`: the server has not taken the call."""

    def __init__(self, *, refused: bool) -> None:
        self.refused = refused
        super().__init__()


def _is_of_connection(error: MCPError) -> bool:
    """Whether the library has made the error: servers use its code for errors of their own."""
    return error.error.code == CONNECTION_CLOSED and error.error.message.startswith(_OF_CONNECTION)


def _is_over(ready: "asyncio.Future[Link]") -> bool:
    return ready.done() and (ready.exception() is not None or ready.result().is_lost)


def _kind(error: BaseException) -> str:
    """The kind of the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return reason_of(error)
