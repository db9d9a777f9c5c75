"""What of an MCP server's words reaches the library that speaks its protocol: what somebody asked for."""

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
"""Of one connection, including invalid ones and those that answer no request; more end the connection."""

_Incoming = SessionMessage | Exception


class McpMessageFilter(Transport):
    """A transport that holds back what nobody here needs.

    Tools that no run may use are left out of lists. Output schemas are taken out of them and kept
    here: the library would check results against them in this process, without any limit.
    """

    def __init__(self, transport: AbstractAsyncContextManager[Any], wanted: Collection[str]) -> None:
        """`wanted` are the names of the tools to keep."""
        self._transport = transport
        self._wanted = frozenset(wanted)
        self._heard = self._requests = 0
        self.output_schemas: dict[str, dict[str, Any]] = {}

    async def __aenter__(self) -> Any:
        reading, writing = await self._transport.__aenter__()
        return _Filtered(reading, self), writing

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._transport.__aexit__(kind, error, trace)

    def passes(self, item: _Incoming) -> bool:
        """Whether the library gets this; it may be changed on the way. Raises `EndOfStream` at a flood."""
        self._heard += 1
        if self._heard > _MAX_MESSAGES:
            raise anyio.EndOfStream
        if isinstance(item, Exception):
            return True
        match item.message:
            case JSONRPCNotification():
                return False
            case JSONRPCRequest() as request:
                self._requests += 1
                # Each is answered with a refusal, or a pong; what it asks is of no interest.
                request.params = None
                return self._requests <= _MAX_REQUESTS
            case JSONRPCResponse(result={"tools": list(tools)} as result):
                result["tools"] = [tool for tool in tools if self._keep(tool)]
        return True

    def _keep(self, tool: Any) -> bool:
        match tool:
            case {"name": str(name)} if name in self._wanted:
                schema = tool.pop("outputSchema", None)
                if isinstance(schema, dict):
                    self.output_schemas[name] = schema
                return True
            case _:
                return False


class _Filtered:
    """The stream the library reads."""

    def __init__(self, inner: Any, inbox: McpMessageFilter) -> None:
        self._inner = inner
        self._inbox = inbox

    @property
    def last_context(self) -> contextvars.Context | None:
        """Of the message before: the library continues in it, where the stream has it."""
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> _Incoming:
        """The next message that passes."""
        while True:
            item: _Incoming = await self._inner.receive()
            if self._inbox.passes(item):
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
