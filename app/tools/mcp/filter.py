"""McpMessageFilter: drops messages of an MCP server that no request needs, before the library gets them."""

import contextvars
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import anyio
from mcp import types
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

from app.platform.json_schema.document import SchemaUnusable

_MAX_REQUESTS = 1_000
_MAX_MESSAGES = 10_000
"""Limits until the next call begins, including invalid messages and responses without a request; more end
the connection."""
_PROGRESS_S = 0.1
"""The shortest time between two notifications of progress."""

_ANY = {"type": "object"}

_Incoming = SessionMessage | Exception


class McpMessageFilter(Transport):
    """A transport that filters incoming messages.

    Tools that the run may not use are removed from lists, and from the others what is not used or not valid:
    the library refuses a whole list for one tool. Schemas are removed from them and kept here: the library
    would validate results against them in this process, without any limit.
    """

    def __init__(
        self, transport: AbstractAsyncContextManager[Any], tool_names: Collection[str] | None
    ) -> None:
        """`tool_names` are the tools to keep; None: all."""
        self._transport = transport
        self._tool_names = tool_names
        self._received = self._requests = 0
        self._next_progress = 0.0
        self.output_schemas: dict[str, dict[str, Any]] = {}
        self._input_schemas: dict[str, Any] = {}
        self.ended = False
        """Whether no more messages will arrive."""

    async def __aenter__(self) -> Any:
        reading, writing = await self._transport.__aenter__()
        return _FilteredStream(reading, self), writing

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._transport.__aexit__(kind, error, trace)

    def begin_call(self) -> None:
        """Count messages anew: a call may have as many as a connection that was just opened."""
        self._received = self._requests = 0

    def passes(self, item: _Incoming) -> bool:
        """Whether the library gets this message; may change it. Raises `EndOfStream` at too many."""
        self._received += 1
        if self._received > _MAX_MESSAGES:
            raise anyio.EndOfStream
        if isinstance(item, Exception):
            return True
        match item.message:
            case JSONRPCNotification(method="notifications/progress"):
                now = anyio.current_time()
                is_due = now >= self._next_progress
                self._next_progress = now + _PROGRESS_S if is_due else self._next_progress
                return is_due
            case JSONRPCNotification():
                return False
            case JSONRPCRequest() as request:
                self._requests += 1
                if request.method != "elicitation/create":
                    # The library refuses each, or answers a ping; parameters are not needed.
                    request.params = None
                return self._requests <= _MAX_REQUESTS
            case JSONRPCResponse(result={"tools": list(tools)} as result):
                result["tools"] = [_plain(tool) for tool in tools if self._keep(tool)]
        return True

    def input_schema(self, name: str) -> dict[str, Any]:
        """The schema of a tool's arguments; a missing one takes any. Raises `SchemaUnusable`."""
        schema = self._input_schemas[name]
        if schema is None or schema is True:
            return _ANY
        if not isinstance(schema, dict):
            raise SchemaUnusable("inputSchema", "must be an object")
        return schema

    def _is_wanted(self, name: str) -> bool:
        return self._tool_names is None or name in self._tool_names

    def _keep(self, tool: Any) -> bool:
        match tool:
            # Of tools with the same name the first one counts, as for the CLI.
            case {"name": str(name)} if self._is_wanted(name) and name not in self._input_schemas:
                self._input_schemas[name] = tool.get("inputSchema")
                if isinstance(schema := tool.get("outputSchema"), dict):
                    self.output_schemas[name] = schema
                return True
            case _:
                return False


def _plain(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool with what is used of it, if that is valid."""
    plain = {"name": tool["name"], "inputSchema": _ANY}
    plain |= {name: tool[name] for name in ("title", "description") if isinstance(tool.get(name), str)}
    try:
        types.ToolAnnotations.model_validate(tool.get("annotations"))
    except ValidationError:
        return plain
    return {**plain, "annotations": tool["annotations"]}


class _FilteredStream:
    """The stream that the library reads."""

    def __init__(self, inner: Any, messages: McpMessageFilter) -> None:
        self._inner = inner
        self._filter = messages

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the last message, in which the library continues."""
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> _Incoming:
        """The next message that passes the filter."""
        try:
            while True:
                item: _Incoming = await self._inner.receive()
                if self._filter.passes(item):
                    return item
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._filter.ended = True
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()
