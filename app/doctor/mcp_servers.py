"""Checks the external MCP servers of each graph: their logins, and a connection as its runs make it."""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain

from app.doctor.report import Check
from app.graphs.spec import GraphSpec
from app.tools.mcp.connection import McpServerUnavailable
from app.tools.mcp.oauth.endpoints import OAuthFailed
from app.tools.mcp.oauth.records import LoginKey, McpLogin
from app.tools.mcp.oauth.service import login_command
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import AnyServer, HttpServer, SseServer, remote_ids

_NAME = "mcp_servers"
_NO_DATABASE = "its login cannot be read without the database"


async def check_mcp_servers(
    graphs: Iterable[GraphSpec], connector: McpConnector, *, has_token_key: bool
) -> list[Check]:
    """One check for each server of each graph, and one for a login that will end.

    `has_token_key`: whether logins are missing because there is no database, not because there is no key.
    """
    found: list[Check] = []
    for graph in graphs:
        checks = [
            _of_server(graph, name, spec, connector, has_token_key=has_token_key)
            for name, spec in graph.mcp_servers.items()
        ]
        found += chain.from_iterable(await asyncio.gather(*checks))
    return found


async def _of_server(
    graph: GraphSpec, server: str, spec: AnyServer, connector: McpConnector, *, has_token_key: bool
) -> list[Check]:
    try:
        found: list[Check] = []
        if isinstance(spec, HttpServer | SseServer) and spec.oauth is not None:
            found = await _authorization(graph, server, spec, connector, has_token_key=has_token_key)
        if all(check.status != "error" for check in found):
            found.append(await _connection(graph, server, spec, connector))
    except Exception as error:  # noqa: BLE001 - what one server does must not hide the others
        return [Check(_NAME, "error", f"graph {graph.id}: {server}: {type(error).__name__}: {error}")]
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


async def _connection(graph: GraphSpec, server: str, spec: AnyServer, connector: McpConnector) -> Check:
    wanted = tuple(remote_ids({server: spec}))
    try:
        connections = await connector.connect({server: spec}, wanted, graph=graph.name)
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
