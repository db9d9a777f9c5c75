"""Checks the external MCP servers of each graph: their logins, and a connection as its runs make it."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime

from app.doctor.report import Check
from app.graphs.spec import GraphSpec
from app.tools.mcp.connection import McpServerUnavailable
from app.tools.mcp.oauth.endpoints import OAuthFailed
from app.tools.mcp.oauth.records import LoginKey, McpLogin
from app.tools.mcp.oauth.service import login_command
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import HttpServer, SseServer, remote_ids

_NAME = "mcp_servers"
_NO_DATABASE = "its login cannot be read without the database"


async def check_mcp_servers(
    graphs: Iterable[GraphSpec], connector: McpConnector, *, has_token_key: bool
) -> list[Check]:
    """One check for each graph with servers, and one for each server of it that cannot be authorized.

    `has_token_key`: whether logins are missing because there is no database, not because there is no key.
    """
    found: list[Check] = []
    for graph in graphs:
        if not graph.mcp_servers:
            continue
        refused = [
            check
            for name, spec in graph.mcp_servers.items()
            if isinstance(spec, HttpServer | SseServer) and spec.oauth is not None
            for check in await _authorization(graph, name, spec, connector, has_token_key=has_token_key)
        ]
        found += refused
        if all(check.status != "error" for check in refused):
            found.append(await _connection(graph, connector))
    return found


async def _authorization(
    graph: GraphSpec,
    server: str,
    spec: HttpServer | SseServer,
    connector: McpConnector,
    *,
    has_token_key: bool,
) -> list[Check]:
    """What is wrong with the access to a server that wants tokens."""
    key, logins = LoginKey(graph.name, server), connector.logins
    is_login = spec.oauth is not None and spec.oauth.grant == "authorization_code"
    refused, end = None, None
    if is_login and logins is None and has_token_key:
        refused = _NO_DATABASE
    else:
        try:
            await connector.require_token(key, spec)
            if is_login and logins is not None:
                end = _end_of((await logins.load(key)).login)
        except OAuthFailed as error:
            refused = str(error)
            if is_login and logins is not None and login_command(key) not in refused:
                refused += f"; {login_command(key)} begins a new login"
    if refused is not None:
        detail = f"graph {graph.id}: {server} cannot be authorized: {refused}"
        return [Check(_NAME, "warning" if spec.optional else "error", detail)]
    if end is None:
        return []
    message = f"the login ends at {end} and cannot be renewed; then use {login_command(key)}"
    return [Check(_NAME, "warning", f"graph {graph.id}: {server}: {message}")]


def _end_of(login: McpLogin) -> str | None:
    """When a login ends that cannot be renewed; None if it can, or if its end is not known."""
    if login.refresh_token is not None or login.expires_at is None or login.expires_at < time.time():
        return None
    return f"{datetime.fromtimestamp(login.expires_at, UTC):%Y-%m-%d %H:%M} UTC"


async def _connection(graph: GraphSpec, connector: McpConnector) -> Check:
    wanted = tuple(remote_ids(graph.mcp_servers))
    try:
        connections = await connector.connect(graph.mcp_servers, wanted, graph=graph.name)
    except McpServerUnavailable as error:
        return Check(_NAME, "error", f"graph {graph.id}: {error} does not respond or lacks a tool")
    missing = sorted(set(wanted) - {tool.id for tool in connections.tools})
    await connections.aclose()
    if connections.unusable:
        faults = "; ".join(f"{tool}: {reason}" for tool, reason in connections.unusable.items())
        return Check(_NAME, "error", f"graph {graph.id}: tools that cannot be used: {faults}")
    if missing:
        return Check(_NAME, "warning", f"graph {graph.id} runs without {', '.join(missing)}")
    return Check(_NAME, "ok", f"graph {graph.id}: {', '.join(wanted)}")
