"""Tools of other people's MCP servers, as tools of ours.

We are the client, not the agent's CLI: so their calls pass through the same tool runner as every
other, with its policy, time and size limits and redaction, and no secret of theirs comes near it.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import httpx2
import jsonschema
import structlog
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from app.tools.tool import Effect, Tool, ToolContext, ToolFailed, ToolOutput

log = structlog.get_logger(__name__)

CONNECT_S = 10.0
"""How long a server may take to say what it has."""

_SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ID_PART = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


class McpServerAway(Exception):
    """An MCP server that a run needs does not answer, or lacks a tool it should have."""


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: Annotated[dict[str, Effect], Field(min_length=1)]
    """Which of its tools may be used, and what each does; nothing else it offers ever is."""
    optional: Annotated[bool, Field(strict=True)] = False
    """Whether a run goes on without it."""
    show_results: Annotated[bool, Field(strict=True)] = False
    """Whether clients see what its tools answer."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 30
    max_result_bytes: Annotated[int, Field(ge=1, le=1_000_000)] = 50_000


class HttpServer(_Spec):
    """A server reached by HTTP."""

    type: Literal["http"]
    url: Annotated[str, Field(pattern=r"^https?://")]
    headers: dict[str, str] = Field(default_factory=dict)


class StdioServer(_Spec):
    """A server that is a program, started anew for each run."""

    type: Literal["stdio"]
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    env: dict[str, str] = Field(default_factory=dict)


McpServer: TypeAlias = Annotated[HttpServer | StdioServer, Field(discriminator="type")]


def remote_id(server: str, name: str) -> str:
    """Our id for a server's tool: in the form of every tool's id, whatever the server calls it."""
    return f"{server}__{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}"


def remote_ids(servers: Mapping[str, HttpServer | StdioServer]) -> Iterator[str]:
    """The ids of every tool that may be used of these servers."""
    for server, spec in servers.items():
        yield from (remote_id(server, name) for name in spec.tools)


def check_names(servers: Mapping[str, HttpServer | StdioServer]) -> None:
    """Raise `ValueError` where two tools would have one id, or one none."""
    ids = list(remote_ids(servers))
    for tool_id in ids:
        server, _, name = tool_id.partition("__")
        if not _ID_PART.fullmatch(server) or not _ID_PART.fullmatch(name):
            message = f"{tool_id!r} is no id of a tool: use lower case letters, digits and single _"
            raise ValueError(message)
    if len(set(ids)) < len(ids):
        message = "two tools would have one id"
        raise ValueError(message)


def secrets_of(servers: Mapping[str, HttpServer | StdioServer]) -> set[str]:
    """The names of the secrets that headers and environments mention."""
    values = [value for spec in servers.values() for value in _values(spec).values()]
    return {name for value in values for name in _SECRET.findall(value)}


@dataclass(frozen=True, slots=True)
class McpConnector:
    """What is needed to connect to servers: their secrets, from the settings."""

    secrets: Mapping[str, SecretStr]

    async def connect(
        self, servers: Mapping[str, HttpServer | StdioServer], wanted: Sequence[str]
    ) -> "McpConnections":
        """Connect to the servers that have the wanted tools; raises `McpServerAway`."""
        needed = {name: spec for name, spec in servers.items() if set(remote_ids({name: spec})) & set(wanted)}
        connections = McpConnections(self.secrets, needed, frozenset(wanted))
        try:
            await connections.open()
        except BaseException:
            await connections.aclose()
            raise
        return connections


class McpConnections:
    """One run's connections, held by a task of their own: the client's scopes belong to one task."""

    def __init__(
        self,
        secrets: Mapping[str, SecretStr],
        servers: Mapping[str, HttpServer | StdioServer],
        wanted: frozenset[str],
    ) -> None:
        self._secrets = secrets
        self._servers = servers
        self._wanted = wanted
        self._holders: list[asyncio.Task[None]] = []
        self.tools: list[Tool] = []

    async def open(self) -> None:
        """Connect to all at once; raises `McpServerAway` for one that is not optional."""
        opened = [asyncio.get_running_loop().create_future() for _ in self._servers]
        for (name, spec), ready in zip(self._servers.items(), opened, strict=True):
            self._holders.append(asyncio.create_task(self._hold(name, spec, ready)))
        for (name, spec), ready in zip(self._servers.items(), opened, strict=True):
            try:
                self.tools += await ready
            except McpServerAway:
                if not spec.optional:
                    raise
                log.warning("a run goes on without an MCP server", server=name)

    async def aclose(self) -> None:
        """Hang up, also on a server that has not answered yet."""
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
                    client = await self._connected(spec, stack)
                    found = await _listed(client)
                ready.set_result(self._ours(name, spec, client, found))
                # Until cancelled: the connection is left by the task that made it.
                await asyncio.get_running_loop().create_future()
        except Exception as error:  # noqa: BLE001 - whatever it is, the server cannot be used
            log.warning("an MCP server cannot be used", server=name, reason=type(error).__name__)
            if not ready.done():
                ready.set_exception(McpServerAway(name))

    async def _connected(self, spec: HttpServer | StdioServer, stack: AsyncExitStack) -> Client:
        values = {name: self._filled(value) for name, value in _values(spec).items()}
        if isinstance(spec, StdioServer):
            program, *arguments = spec.command
            server = StdioServerParameters(command=program, args=arguments, env=values)
            return await stack.enter_async_context(Client(server))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=values, timeout=spec.timeout_s, trust_env=False)
        )
        transport = streamable_http_client(spec.url, http_client=http)
        return await stack.enter_async_context(Client(transport))

    def _filled(self, value: str) -> str:
        return _SECRET.sub(lambda match: self._secrets[match[1]].get_secret_value(), value)

    def _ours(
        self, server: str, spec: HttpServer | StdioServer, client: Client, found: Sequence[types.Tool]
    ) -> list[Tool]:
        by_name = {tool.name: tool for tool in found}
        wanted = {
            name: effect for name, effect in spec.tools.items() if remote_id(server, name) in self._wanted
        }
        if missing := wanted.keys() - by_name.keys():
            log.error("an MCP server lacks tools that a graph names", server=server, tools=sorted(missing))
            raise McpServerAway(server)
        return [
            _tool(remote_id(server, name), by_name[name], effect, spec=spec, client=client)
            for name, effect in wanted.items()
        ]


class _Answer(BaseModel):
    """What a remote tool answered."""

    text: str


class _Arguments(BaseModel):
    """Arguments as the server's own schema wants them."""

    model_config = ConfigDict(extra="allow")


def _tool(
    tool_id: str, remote: types.Tool, effect: Effect, *, spec: HttpServer | StdioServer, client: Client
) -> Tool:
    async def call(args: BaseModel, _context: ToolContext) -> ToolOutput[_Answer]:
        result = await client.call_tool(remote.name, args.model_dump(mode="json"))
        text = "\n\n".join(map(_text, result.content))
        if result.is_error:
            raise ToolFailed(text or "The tool failed.")
        return ToolOutput(markdown=text, structured=_Answer(text=text))

    return Tool(
        id=tool_id,
        description=remote.description or remote.title or remote.name,
        effect=effect,
        input_model=_arguments(remote.input_schema),
        output_model=_Answer,
        redact=("text",) if spec.show_results else (),
        timeout_s=spec.timeout_s,
        max_result_bytes=spec.max_result_bytes,
        handler=call,
    )


def _arguments(schema: dict[str, Any]) -> type[BaseModel]:
    validator = jsonschema.Draft202012Validator(schema)

    class Arguments(_Arguments):
        @model_validator(mode="before")
        @classmethod
        def _matches(cls, value: Any) -> Any:
            fault = jsonschema.exceptions.best_match(validator.iter_errors(value))
            if fault is not None:
                message = f"{'.'.join(map(str, fault.absolute_path)) or 'arguments'}: {fault.message}"
                raise ValueError(message)
            return value

        @classmethod
        def model_json_schema(cls, *_args: Any, **_options: Any) -> dict[str, Any]:
            return schema

    return Arguments


def _text(content: types.ContentBlock) -> str:
    return content.text if isinstance(content, types.TextContent) else f"[{content.type}]"


async def _listed(client: Client) -> list[types.Tool]:
    found: list[types.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        if (cursor := page.next_cursor) is None:
            return found


def _values(spec: HttpServer | StdioServer) -> dict[str, str]:
    return spec.headers if isinstance(spec, HttpServer) else spec.env
