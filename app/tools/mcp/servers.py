"""McpConnections: the tools of external MCP servers as tools of a run.

The server is the MCP client, not the agent's CLI: so calls pass through the tool runner like all others,
with its policy, limits and redaction, and the CLI never gets the servers' secrets.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

import structlog
from mcp import Client, types
from pydantic import SecretStr

from app.platform.background import run_to_completion
from app.platform.json_schema.checker import SchemaChecker
from app.platform.json_schema.document import SchemaUnusable
from app.platform.network import DIRECT, Network
from app.tools.mcp.asking.elicitation import Elicitation, Person
from app.tools.mcp.connection import Link, McpServerUnavailable, ServerConnection
from app.tools.mcp.filter import McpMessageFilter
from app.tools.mcp.limits import ResponseLimit
from app.tools.mcp.oauth.endpoints import OAuthFailed
from app.tools.mcp.oauth.records import LoginKey
from app.tools.mcp.oauth.service import LoginGrant, McpLogins
from app.tools.mcp.oauth.token_source import ClientCredentials, OAuth, TokenGrant, TokenSource
from app.tools.mcp.spec import (
    SECRET,
    AnyServer,
    HttpServer,
    OAuthClient,
    SseServer,
    StdioServer,
    configured_values,
    remote_id,
    remote_ids,
)
from app.tools.mcp.tools import ToolMaker
from app.tools.mcp.transports import open_transport
from runtally.tools.tool import Effect, Tool

log = structlog.get_logger(__name__)

MAX_PAGES = 50
"""How many pages of tools are read to find the configured ones."""


@dataclass(frozen=True, slots=True)
class McpConnector:
    """Connects to servers; fills in their secrets and checks their schemas."""

    secrets: Mapping[str, SecretStr]
    schemas: SchemaChecker
    logins: McpLogins | None = None
    """None without RUNTALLY_MCP_TOKEN_KEY."""
    network: Network = DIRECT
    _tokens: dict[tuple[LoginKey, str, OAuthClient], TokenSource] = field(default_factory=dict, repr=False)

    async def connect(
        self,
        servers: Mapping[str, AnyServer],
        tool_ids: Sequence[str],
        *,
        graph: str = "",
        person: Person | None = None,
    ) -> "McpConnections":
        """Connect to the servers that have these tools; raises `McpServerUnavailable`.

        `graph` is the name of the graph whose logins are used; `person` whom the servers may ask.
        """
        needed = {
            name: spec for name, spec in servers.items() if set(remote_ids({name: spec})) & set(tool_ids)
        }
        connections = McpConnections(self, needed, frozenset(tool_ids), graph=graph, person=person)
        try:
            await connections.open()
        except BaseException:
            await connections.aclose()
            raise
        return connections

    def with_secrets(self, values: Mapping[str, str]) -> dict[str, str]:
        return {
            name: SECRET.sub(lambda match: self.secrets[match[1]].get_secret_value(), value)
            for name, value in values.items()
        }

    def auth(self, key: LoginKey, spec: AnyServer) -> OAuth | None:
        """How requests to a server are authorized; None if their headers are all there is."""
        if isinstance(spec, StdioServer) or spec.oauth is None:
            return None
        known = (key, spec.url, spec.oauth)
        if known not in self._tokens:
            self._tokens[known] = TokenSource(key.server, self._grant(key, spec, spec.oauth))
        return OAuth(self._tokens[known])

    async def require_token(self, key: LoginKey, spec: AnyServer) -> None:
        """Request an access token as the next connection would; raises `OAuthFailed`."""
        if (auth := self.auth(key, spec)) is not None:
            await auth.authorize()

    def _grant(self, key: LoginKey, spec: HttpServer | SseServer, client: OAuthClient) -> TokenGrant:
        if client.grant == "authorization_code":
            if self.logins is None:
                message = "RUNTALLY_MCP_TOKEN_KEY is not set"
                log.warning("mcp_server.unauthorized", server=key.server, reason=message)
                raise OAuthFailed(message)
            return LoginGrant(self.logins, key, spec.url, network=self.network)
        (secret,) = self.with_secrets({"": client.client_secret or ""}).values()
        return ClientCredentials(spec.url, client, secret, network=self.network)


class McpConnections:
    """One run's connections."""

    def __init__(
        self,
        connector: McpConnector,
        servers: Mapping[str, AnyServer],
        tool_ids: frozenset[str],
        *,
        graph: str,
        person: Person | None,
    ) -> None:
        self._connector = connector
        self._patience_s = 0.0 if person is None else person.timeout_s
        self._elicitations = {
            name: Elicitation(name, person, connector.schemas, silence_s=spec.timeout_s)
            for name, spec in servers.items()
            if person is not None
        }
        self._graph = graph
        self._servers = servers
        self._tool_ids = tool_ids
        self._connections = {
            name: ServerConnection(name, partial(self._open_link, name, spec))
            for name, spec in servers.items()
        }
        self.tools: list[Tool] = []
        self.instructions: dict[str, str] = {}
        """The instructions of the servers for the model, by server."""
        self.unusable: dict[str, str] = {}
        """Tools whose description or schema is unusable, with the reason."""

    async def open(self) -> None:
        """Connect to all at once; raises `McpServerUnavailable` for one that is not optional."""
        opening = [asyncio.create_task(self._open(name, spec)) for name, spec in self._servers.items()]
        try:
            for (name, spec), opened in zip(self._servers.items(), opening, strict=True):
                try:
                    self.tools += await opened
                except McpServerUnavailable:
                    if not spec.optional:
                        raise
                    log.warning("mcp_server.skipped", server=name)
        finally:
            for opened in opening:
                opened.cancel()
            await asyncio.gather(*opening, return_exceptions=True)

    async def aclose(self) -> None:
        """Close all connections, including those being opened; a cancellation waits until that is done."""
        await run_to_completion(self._close())

    async def _close(self) -> None:
        await asyncio.gather(*(connection.aclose() for connection in self._connections.values()))

    async def _open(self, server: str, spec: AnyServer) -> list[Tool]:
        connection = self._connections[server]
        link = await connection.open()
        if spec.instructions and link.client.instructions:
            self.instructions[server] = link.client.instructions
        maker = ToolMaker(
            server=server,
            spec=spec,
            connection=connection,
            schemas=self._connector.schemas,
            elicitation=self._elicitations.get(server),
        )
        made = [
            await self._make_tool(maker, link.tools[name], effect, link.messages)
            for name, effect in self._wanted(server, spec).items()
        ]
        return [tool for tool in made if tool is not None]

    def _wanted(self, server: str, spec: AnyServer) -> dict[str, Effect]:
        return {
            name: effect for name, effect in spec.tools.items() if remote_id(server, name) in self._tool_ids
        }

    async def _open_link(self, server: str, spec: AnyServer, stack: AsyncExitStack) -> Link:
        """Connect to a server until the stack is closed, and find its configured tools."""
        limit = ResponseLimit.of_results(spec.limits)
        elicitation = self._elicitations.get(server)
        wanted = frozenset(self._wanted(server, spec))
        transport = await open_transport(
            server,
            spec,
            self._connector.with_secrets(configured_values(spec)),
            stack=stack,
            limit=limit,
            auth=self._connector.auth(LoginKey(self._graph, server), spec),
            network=self._connector.network,
            patience_s=self._patience_s,
        )
        messages = McpMessageFilter(transport, wanted)
        # Its own cache would hold every page it has read.
        client = await stack.enter_async_context(
            Client(
                messages, cache=None, elicitation_callback=None if elicitation is None else elicitation.answer
            )
        )
        found = await list_tools(client, wanted)
        if missing := wanted - found.keys():
            log.error("mcp_server.tools_missing", server=server, tools=sorted(missing))
            raise McpServerUnavailable(server)
        return Link(client, messages, limit, found)

    async def _make_tool(
        self, maker: ToolMaker, remote: types.Tool, effect: Effect, messages: McpMessageFilter
    ) -> Tool | None:
        tool_id = remote_id(maker.server, remote.name)
        try:
            return await maker.make(
                tool_id,
                remote,
                effect,
                input_schema=messages.input_schema(remote.name),
                output_schema=messages.output_schemas.get(remote.name),
            )
        except SchemaUnusable as error:
            self.unusable[tool_id] = str(error)
            log.error("mcp_tool.unusable", tool_id=tool_id, reason=str(error))  # noqa: TRY400
            return None


async def list_tools(client: Client, wanted: Collection[str] | None) -> dict[str, types.Tool]:
    """A server's tools with these names, after which the rest of its list is not read; None: all."""
    found: dict[str, types.Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found |= {tool.name: tool for tool in page.tools if wanted is None or tool.name in wanted}
        if (cursor := page.next_cursor) is None or found.keys() == wanted:
            break
    return found
