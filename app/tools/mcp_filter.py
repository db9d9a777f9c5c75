"""McpMessageFilter: drops messages of an MCP server that no request needs, before the library gets them."""

import contextvars
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

_MAX_REQUESTS = 1_000
_MAX_MESSAGES = 10_000
"""Limit per connection, including invalid messages and responses without a request; more end it."""

_Incoming = SessionMessage | Exception


class McpMessageFilter(Transport):
    """A transport that filters incoming messages.

    Tools that the run may not use are removed from lists. Output schemas are removed from them and kept
    here: the library would validate results against them in this process, without any limit.
    """

    def __init__(self, transport: AbstractAsyncContextManager[Any], tool_names: Collection[str]) -> None:
        """`tool_names` are the tools to keep."""
        self._transport = transport
        self._tool_names = frozenset(tool_names)
        self._received = self._requests = 0
        self.output_schemas: dict[str, dict[str, Any]] = {}

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

    def passes(self, item: _Incoming) -> bool:
        """Whether the library gets this message; may change it. Raises `EndOfStream` at too many."""
        self._received += 1
        if self._received > _MAX_MESSAGES:
            raise anyio.EndOfStream
        if isinstance(item, Exception):
            return True
        match item.message:
            case JSONRPCNotification():
                return False
            case JSONRPCRequest() as request:
                self._requests += 1
                # The library refuses each, or answers a ping; parameters are not needed.
                request.params = None
                return self._requests <= _MAX_REQUESTS
            case JSONRPCResponse(result={"tools": list(tools)} as result):
                result["tools"] = [tool for tool in tools if self._keep(tool)]
        return True

    def _keep(self, tool: Any) -> bool:
        match tool:
            case {"name": str(name)} if name in self._tool_names:
                schema = tool.pop("outputSchema", None)
                if isinstance(schema, dict):
                    self.output_schemas[name] = schema
                return True
            case _:
                return False


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
        while True:
            item: _Incoming = await self._inner.receive()
            if self._filter.passes(item):
                return item

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
