"""Logins at tool servers: what is pasted, authorization servers that lead elsewhere, the doctor."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import RedirectResponse, Response

from app.doctor.mcp_servers import check_mcp_servers
from app.doctor.report import Check
from app.graphs.spec import GraphSpec
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.tools.mcp.oauth.endpoints import OAuthFailed
from app.tools.mcp.oauth.login import LoginFailed
from app.tools.mcp.oauth.records import LoginKey, McpLogin
from app.tools.mcp.oauth.service import McpLogins
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import HttpServer, SseServer
from tests.e2e.stories import until
from tests.integration.statements import execute
from tests.integration.test_tool_servers_with_oauth import (
    KEY,
    Protected,
    a_server,
    consent,
    protected,
    settings_with_graph,
)
from tests.log_lines import written_log
from tests.patience import PATIENCE_S


async def test_a_login_whose_redirect_is_pasted(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    async with protected() as server:
        settings = settings_with_graph(server, tmp_path, database_url, RUNTALLY_MCP_TOKEN_KEY="k" * 32)
        await consent(settings, paste="  {}".format)

    stored = await McpLogins(database, KEY).load(KEY_OF_LOGIN)
    assert (stored.login.access_token, stored.login.url) == ("token-1", f"{server.url}/mcp")


NO_DATABASE = "postgresql://nobody@127.0.0.1:1/none"
INTERNAL = "http://169.254.169.254/latest"
REFUSED: list[tuple[dict[str, Any], Callable[[str], str], str]] = [
    # What is wrong with the authorization server, what is pasted, and the reason.
    ({}, lambda sent: re.sub("state=[^&]*", "state=x", sent), "State parameter mismatch"),
    ({}, lambda sent: re.sub("&state=[^&]*", "", sent), "State parameter mismatch"),
    ({}, lambda sent: sent.replace("127.0.0.1", "library.example"), "not the address"),
    ({}, lambda sent: f"{sent.partition('?')[0]}?error=access_denied", "access_denied"),
    ({}, lambda _sent: "c0de", "not the address"),
    ({}, lambda sent: f"{sent}&iss=https%3A%2F%2Fevil.example", "iss"),
    ({"issuer": "https://evil.example"}, str, "issuer"),
    ({"token_endpoint": INTERNAL}, str, "without https"),
    ({"authorization_endpoint": INTERNAL}, str, "without https"),
    ({"answer": Response(b'{"access_token": "' + b"x" * 10_000_000 + b'"}')}, str, "too large"),
    ({"answer": RedirectResponse("/internal", 307)}, str, "redirects"),
    ({"answer": Response(b"x", headers={"content-encoding": "gzip"})}, str, "compresses"),
    ({"answer": Response(b"\x1b[31mred" + b"x" * 9_000, 400)}, str, "400"),
]


async def test_a_login_that_is_led_elsewhere_fails(tmp_path: Path) -> None:
    for faults, line, reason in REFUSED:
        async with protected() as server:
            vars(server).update(faults)
            settings = settings_with_graph(server, tmp_path, NO_DATABASE, RUNTALLY_MCP_TOKEN_KEY="k" * 32)
            with pytest.raises(LoginFailed) as raised:
                await consent(settings, paste=line)

        shown = str(raised.value)
        assert reason in shown, (faults, shown)
        assert len(shown) < 1_000
        assert shown.isprintable()
        assert "/internal" not in server.paths


async def test_a_login_is_at_the_issuer_that_is_configured(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    key = {"RUNTALLY_MCP_TOKEN_KEY": "k" * 32}
    async with protected() as server:
        other = settings_with_graph(server, tmp_path, database_url, issuer="https://other.example", **key)
        with pytest.raises(LoginFailed) as raised:
            await consent(other, paste=str)
        paths = list(server.paths)
        await consent(settings_with_graph(server, tmp_path, database_url, issuer=f"{server.url}/", **key))

    assert "not the configured issuer" in str(raised.value)
    assert not {"/authorize", "/token"} & set(paths)
    assert (await McpLogins(database, KEY).load(KEY_OF_LOGIN)).login.access_token == "token-1"


@dataclass(frozen=True, slots=True)
class Kept:
    """A login as it is stored, and what the doctor finds."""

    status: str
    detail: str
    ends_in_s: float = -1
    refresh_token: str | None = None
    url: str = "/mcp"
    is_stored: bool = True


KEY_OF_LOGIN = LoginKey("librarian", "library")


def a_login(server: Protected, kept: Kept) -> McpLogin:
    return McpLogin(
        url=f"{server.url}{kept.url}",
        token_url=f"{server.url}/token",
        client_id="c",
        client_secret=None,
        client_auth=None,
        resource=f"{server.url}/mcp",
        refresh_token=kept.refresh_token,
        access_token="token-1",
        expires_at=time.time() + kept.ends_in_s,
    )


COMMAND = "runtally mcp login librarian library"
KEPT = {
    "none": Kept("error", f"there is no login: use {COMMAND}", is_stored=False),
    "ended": Kept("error", f"the login has ended: use {COMMAND}"),
    "ends": Kept("warning", f"UTC and cannot be renewed; then use {COMMAND}", ends_in_s=900),
    "not renewed": Kept("error", f"status 400; {COMMAND} begins a new login", refresh_token="old"),
    "renewed": Kept("ok", "library__search", refresh_token="refresh-0"),
    "elsewhere": Kept("error", f"for another URL: use {COMMAND}", ends_in_s=900, url="/other"),
}


async def test_the_doctor_knows_the_state_of_logins(schemas: SchemaChecker, database: Database) -> None:
    logins, found = McpLogins(database, KEY), {}
    async with protected() as server:
        spec = HttpServer.model_validate(a_server(server, {"grant": "authorization_code"}))
        graph = GraphSpec(name="librarian", description="d", system_prompt="p", mcp_servers={"library": spec})

        async def check(logins: McpLogins | None, *, has_token_key: bool = True) -> list[Check]:
            return await check_mcp_servers(
                [graph], McpConnector({}, schemas, logins), has_token_key=has_token_key
            )

        for name, kept in KEPT.items():
            server.issued, server.refresh_tokens = 1, 0
            if kept.is_stored:
                await logins.save(KEY_OF_LOGIN, a_login(server, kept))
            found[name] = await check(logins)
        (without_key,) = await check(None, has_token_key=False)
        (without_database,) = await check(None)

    for name, kept in KEPT.items():
        assert kept.detail in found[name][0].detail, name
        assert found[name][0].status == kept.status
        # Only a server that can be authorized is connected to.
        assert [each.status for each in found[name][1:]] == (["ok"] if kept.status == "warning" else [])
    assert (without_key.status, without_database.status) == ("error", "error")
    assert "RUNTALLY_MCP_TOKEN_KEY is not set" in without_key.detail
    assert "without the database" in without_database.detail


TYPES = {HttpServer: "http", SseServer: "sse"}


@dataclass
class Slow(Protected):
    """Takes a refresh token, but answers later."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def _issue(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.may_answer.wait()
        await super()._issue(scope, receive, send)


@pytest.mark.parametrize("kind", [HttpServer, SseServer])
async def test_a_login_that_is_renewed_while_its_run_is_cancelled_is_kept(
    schemas: SchemaChecker, database: Database, kind: type[HttpServer | SseServer]
) -> None:
    logins, server = McpLogins(database, KEY), Slow(issued=1)
    connector = McpConnector({}, schemas, logins)
    async with serve_on_loopback(server) as server.url:
        await logins.save(KEY_OF_LOGIN, a_login(server, KEPT["renewed"]))
        oauth = {"grant": "authorization_code"}
        spec: Any = kind.model_validate({**a_server(server, oauth), "type": TYPES[kind]})
        connecting = asyncio.create_task(
            connector.connect({"library": spec}, ["library__search"], graph=KEY_OF_LOGIN.graph)
        )
        await until(lambda: bool(server.forms))
        for _ in range(2):
            connecting.cancel()
            await asyncio.sleep(0.1)
        server.may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        stored = await logins.load(KEY_OF_LOGIN)
        await McpConnector({}, schemas, logins).require_token(KEY_OF_LOGIN, spec)

    assert stored.login.refresh_token == "refresh-1"
    assert len(server.forms) == 1


@dataclass
class World:
    """A server whose login has to be renewed, and two processes that use it."""

    server: Slow
    spec: Any
    logins: tuple[McpLogins, McpLogins]
    connectors: tuple[McpConnector, McpConnector]

    async def renewed_by(self, process: int) -> None:
        await self.connectors[process].require_token(KEY_OF_LOGIN, self.spec)

    async def requested(self) -> None:
        """Wait until the authorization server has a request."""
        await until(lambda: bool(self.server.forms))


@pytest.fixture
async def world(schemas: SchemaChecker, database: Database) -> AsyncIterator[World]:
    server, logins = Slow(issued=1), (McpLogins(database, KEY), McpLogins(database, KEY))
    async with serve_on_loopback(server) as server.url:
        await logins[0].save(KEY_OF_LOGIN, a_login(server, KEPT["renewed"]))
        spec = HttpServer.model_validate(a_server(server, {"grant": "authorization_code"}))
        first, second = (McpConnector({}, schemas, each) for each in logins)
        yield World(server, spec, logins, (first, second))


async def test_a_refresh_token_is_used_by_one_process_only(world: World) -> None:
    both = [asyncio.create_task(world.renewed_by(process)) for process in (0, 1)]
    await world.requested()
    # Time for the other one to do the same.
    await asyncio.wait(both, timeout=1)
    world.server.may_answer.set()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*both)

    assert len(world.server.forms) == 1
    assert (await world.logins[1].load(KEY_OF_LOGIN)).login.access_token == "token-2"


async def test_a_process_that_cannot_renew_a_login_keeps_no_other_one_from_it(world: World) -> None:
    world.server.may_answer.set()
    world.server.refuses = True
    with pytest.raises(OAuthFailed, match="status 400"):
        await world.renewed_by(0)
    world.server.refuses = False
    async with asyncio.timeout(PATIENCE_S):
        await world.renewed_by(1)


async def test_a_process_that_has_died_does_not_keep_the_login_for_ever(
    world: World, database: Database
) -> None:
    world.server.may_answer.set()
    dying = "UPDATE mcp_logins SET refreshing_until = clock_timestamp() + interval '1 second'"
    await execute(database, dying)
    async with asyncio.timeout(PATIENCE_S):
        await world.renewed_by(0)

    assert len(world.server.forms) == 1


async def test_a_login_that_could_not_be_saved_is_saved_later(world: World, database: Database) -> None:
    renewing = asyncio.create_task(world.renewed_by(0))
    await world.requested()
    await execute(database, "ALTER TABLE mcp_logins RENAME COLUMN sealed TO gone")
    world.server.may_answer.set()
    with written_log() as written:
        await renewing
    await execute(database, "ALTER TABLE mcp_logins RENAME COLUMN gone TO sealed")
    await world.logins[0].load(KEY_OF_LOGIN)

    assert len(written.of("mcp_server.login_not_saved")) == 1
    assert (await world.logins[1].load(KEY_OF_LOGIN)).login.refresh_token == "refresh-1"
