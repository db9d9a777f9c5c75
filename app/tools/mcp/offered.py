"""offered_tools: asks a server for all its tools, with the effects that its annotations name."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

from mcp import Client, MCPError, types
from mcp.types import CONNECTION_CLOSED

from app.tools.mcp.filter import McpMessageFilter
from app.tools.mcp.limits import ResponseLimit
from app.tools.mcp.servers import list_tools
from app.tools.mcp.spec import AnyServer
from app.tools.mcp.transports import open_transport
from runtally.tools.tool import Effect

_LONGEST_S = 120.0
"""A program may first have to be downloaded by what starts it."""


class ServerSilent(Exception):
    """A server did not list its tools; the text says why."""


async def offered_tools(name: str, spec: AnyServer, values: Mapping[str, str]) -> dict[str, Effect]:
    """The tools of a server; raises `ServerSilent`. `values` are its headers or its environment."""
    limit = ResponseLimit.of_results(spec.limits)
    try:
        async with asyncio.timeout(_LONGEST_S), AsyncExitStack() as stack:
            transport = await open_transport(name, spec, values, stack=stack, limit=limit, auth=None)
            messages = McpMessageFilter(transport, None)
            client = await stack.enter_async_context(Client(messages, cache=None))
            tools = await list_tools(client, None)
    except Exception as error:
        raise ServerSilent(_reason(error)) from error
    return {tool: effect_of(found.annotations) for tool, found in tools.items()}


def effect_of(hints: types.ToolAnnotations | None) -> Effect:
    """The effect of a tool, the worst one where its server names none."""
    if hints is not None and hints.read_only_hint:
        return "read_only"
    if hints is not None and hints.destructive_hint is False and hints.open_world_hint is not True:
        return "state_change"
    return "external_side_effect"


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case TimeoutError():
            return f"it did not list its tools within {_LONGEST_S:g} s"
        case OSError(strerror=str(reason)):
            return f"it cannot be started: {reason}"
        case MCPError() if error.error.code != CONNECTION_CLOSED:
            return "it answers with an error: it may need a login, or other headers"
        case _:
            return "what answers is no MCP server, or it refuses or ends the connection"
