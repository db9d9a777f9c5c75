"""McpConnections: the tools of external MCP servers as tools of a run.

The server is the MCP client, not the agent's CLI: so calls pass through the tool runner like all others,
with its policy, limits and redaction, and the CLI never gets the servers' secrets.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import httpx2
import structlog
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from app.json_schema.checker import SchemaChecker
from app.json_schema.document import SchemaUnusable
from app.tools.mcp_filter import McpMessageFilter
from app.tools.mcp_http import BoundedTransport
from app.tools.mcp_limits import ResponseLimit
from app.tools.mcp_stdio import bounded_stdio
from app.tools.mcp_tools import ToolMaker
from app.tools.tool import Effect, Tool

log = structlog.get_logger(__name__)

CONNECT_S = 10.0
"""How long a server may take to connect and list its tools."""

MAX_PAGES = 50
"""How many pages of tools are read to find the configured ones."""

MAX_ID_CHARS = 100
"""Executors add a prefix to the id; the Messages API allows 128 characters in all."""

_SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ID_PART = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


class McpServerUnavailable(Exception):
    """An MCP server that a run needs does not respond, or lacks a configured tool."""


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: Annotated[dict[str, Effect], Field(min_length=1)]
    """The tools that may be used, with the effect of each; no other tool of the server is ever used."""
    optional: Annotated[bool, Field(strict=True)] = False
    """Whether runs continue without it."""
    show_results: Annotated[bool, Field(strict=True)] = False
    """Whether clients see the results of its tools."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 30
    max_result_bytes: Annotated[int, Field(ge=1, le=1_000_000)] = 50_000


class HttpServer(_Spec):
    """A server reached by HTTP."""

    type: Literal["http"]
    url: Annotated[str, Field(pattern=r"^https?://")]
    headers: dict[str, str] = Field(default_factory=dict)


class StdioServer(_Spec):
    """A server that is a program, started for each run."""

    type: Literal["stdio"]
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    env: dict[str, str] = Field(default_factory=dict)


McpServer: TypeAlias = Annotated[HttpServer | StdioServer, Field(discriminator="type")]


def remote_id(server: str, name: str) -> str:
    """Our id for a server's tool, in the format of all tool ids."""
    return f"{server}__{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}"


def remote_ids(servers: Mapping[str, HttpServer | StdioServer]) -> Iterator[str]:
    """The ids of all tools that may be used of these servers."""
    for server, spec in servers.items():
        yield from (remote_id(server, name) for name in spec.tools)


def check_names(servers: Mapping[str, HttpServer | StdioServer]) -> None:
    """Raise `ValueError` if two tools would have the same id, or a tool no valid one."""
    ids = list(remote_ids(servers))
    for tool_id in ids:
        server, _, name = tool_id.partition("__")
        if not _ID_PART.fullmatch(server) or not _ID_PART.fullmatch(name):
            message = f"{tool_id!r} is no id of a tool: use lower case letters, digits and single _"
            raise ValueError(message)
        if len(tool_id) > MAX_ID_CHARS:
            message = f"{tool_id!r} is longer than {MAX_ID_CHARS} characters; no model takes such a name"
            raise ValueError(message)
    if len(set(ids)) < len(ids):
        message = "two tools would have the same id"
        raise ValueError(message)


def secret_names(servers: Mapping[str, HttpServer | StdioServer]) -> set[str]:
    """The names of the secrets used in headers and environments."""
    values = [value for spec in servers.values() for value in _values(spec).values()]
    return {name for value in values for name in _SECRET.findall(value)}


@dataclass(frozen=True, slots=True)
class McpConnector:
    """Connects to servers; fills in their secrets and checks their schemas."""

    secrets: Mapping[str, SecretStr]
    schemas: SchemaChecker

    async def connect(
        self, servers: Mapping[str, HttpServer | StdioServer], tool_ids: Sequence[str]
    ) -> "McpConnections":
        """Connect to the servers that have these tools; raises `McpServerUnavailable`."""
        needed = {
            name: spec for name, spec in servers.items() if set(remote_ids({name: spec})) & set(tool_ids)
        }
        connections = McpConnections(self, needed, frozenset(tool_ids))
        try:
            await connections.open()
        except BaseException:
            await connections.aclose()
            raise
        return connections


class McpConnections:
    """One run's connections, each owned by a task, because the client's cancel scopes belong to one task."""

    def __init__(
        self,
        connector: McpConnector,
        servers: Mapping[str, HttpServer | StdioServer],
        tool_ids: frozenset[str],
    ) -> None:
        self._connector = connector
        self._servers = servers
        self._tool_ids = tool_ids
        self._holders: list[asyncio.Task[None]] = []
        self.tools: list[Tool] = []
        self.unusable: dict[str, str] = {}
        """Tools whose description or schema is unusable, with the reason."""

    async def open(self) -> None:
        """Connect to all at once; raises `McpServerUnavailable` for one that is not optional."""
        opened = [asyncio.get_running_loop().create_future() for _ in self._servers]
        for (name, spec), ready in zip(self._servers.items(), opened, strict=True):
            self._holders.append(asyncio.create_task(self._hold(name, spec, ready)))
        for (name, spec), ready in zip(self._servers.items(), opened, strict=True):
            try:
                self.tools += await ready
            except McpServerUnavailable:
                if not spec.optional:
                    raise
                log.warning("mcp_server.skipped", server=name)

    async def aclose(self) -> None:
        """Close all connections, including those being opened."""
        for holder in self._holders:
            holder.cancel()
        if self._holders:
            await asyncio.wait(self._holders)

    async def _hold(
        self, name: str, spec: HttpServer | StdioServer, ready: "asyncio.Future[list[Tool]]"
    ) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_S):
                    tools = await self._connect(name, spec, stack)
                ready.set_result(tools)
                # Until cancelled: the connection is left by the task that made it.
                await asyncio.get_running_loop().create_future()
        except Exception as error:  # noqa: BLE001 - whatever it is, the server cannot be used
            log.warning("mcp_server.failed", server=name, reason=type(error).__name__)
            if not ready.done():
                ready.set_exception(McpServerUnavailable(name))

    async def _connect(
        self, server: str, spec: HttpServer | StdioServer, stack: AsyncExitStack
    ) -> list[Tool]:
        """Connect to a server until the stack is closed; returns its configured tools."""
        limit = ResponseLimit.of_results(spec.max_result_bytes)
        wanted = {
            name: effect for name, effect in spec.tools.items() if remote_id(server, name) in self._tool_ids
        }
        messages = McpMessageFilter(await self._transport(spec, stack, limit), wanted)
        # Its own cache would hold every page it has read.
        client = await stack.enter_async_context(Client(messages, cache=None))
        found = await _list_tools(client, frozenset(wanted))
        if missing := wanted.keys() - found.keys():
            log.error("mcp_server.tools_missing", server=server, tools=sorted(missing))
            raise McpServerUnavailable(server)
        maker = ToolMaker(
            server=server,
            client=client,
            schemas=self._connector.schemas,
            limit=limit,
            timeout_s=spec.timeout_s,
            max_result_bytes=spec.max_result_bytes,
            show_results=spec.show_results,
        )
        return [
            tool
            for name, effect in wanted.items()
            if (tool := await self._make_tool(maker, found[name], effect, messages)) is not None
        ]

    async def _transport(
        self, spec: HttpServer | StdioServer, stack: AsyncExitStack, limit: ResponseLimit
    ) -> AbstractAsyncContextManager[object]:
        values = {name: self._with_secrets(value) for name, value in _values(spec).items()}
        if isinstance(spec, StdioServer):
            return bounded_stdio(spec.command, values, limit=limit)
        transport = BoundedTransport(
            httpx2.AsyncHTTPTransport(trust_env=False), limit, response_s=spec.timeout_s
        )
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=values, timeout=spec.timeout_s, trust_env=False, transport=transport)
        )
        return streamable_http_client(spec.url, http_client=http, max_sse_event_size=limit.max_bytes)

    async def _make_tool(
        self, maker: ToolMaker, remote: types.Tool, effect: Effect, messages: McpMessageFilter
    ) -> Tool | None:
        tool_id = remote_id(maker.server, remote.name)
        try:
            schema = messages.output_schemas.get(remote.name)
            return await maker.make(tool_id, remote, effect, output_schema=schema)
        except SchemaUnusable as error:
            self.unusable[tool_id] = str(error)
            log.error("mcp_tool.unusable", tool_id=tool_id, reason=str(error))  # noqa: TRY400
            return None

    def _with_secrets(self, value: str) -> str:
        secrets = self._connector.secrets
        return _SECRET.sub(lambda match: secrets[match[1]].get_secret_value(), value)


async def _list_tools(client: Client, wanted: frozenset[str]) -> dict[str, types.Tool]:
    """A server's tools with these names; the rest of its list is not read."""
    found: dict[str, types.Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found |= {tool.name: tool for tool in page.tools if tool.name in wanted}
        if (cursor := page.next_cursor) is None or found.keys() == wanted:
            break
    return found


def _values(spec: HttpServer | StdioServer) -> dict[str, str]:
    return spec.headers if isinstance(spec, HttpServer) else spec.env
