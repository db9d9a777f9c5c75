"""A tool server that wants an access token, and an authorization server that has one."""

import asyncio
import base64
import hashlib
import io
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
import yaml
from pydantic import SecretStr
from rich.console import Console
from starlette.responses import JSONResponse, RedirectResponse, Response

from app.cli.mcp import NoSuchLogin, TokenKeyMissing, login
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from app.platform.settings import Settings
from app.tools.mcp.connection import McpServerUnavailable
from app.tools.mcp.oauth.endpoints import OAuthFailed
from app.tools.mcp.oauth.login import LoginFailed
from app.tools.mcp.oauth.records import LoginKey
from app.tools.mcp.oauth.service import McpLogins
from app.tools.mcp.servers import McpConnections, McpConnector
from app.tools.mcp.spec import HttpServer
from tests.integration.hostile_mcp import HostileServer
from tests.integration.statements import scalar
from tests.integration.test_tool_servers_that_are_lost import FOUND, Calls
from tests.log_lines import written_log
from tests.patience import PATIENCE_S

SECRET = "s:cret/of the client"


@dataclass
class Protected:
    """Both servers in one; only the latest token is valid."""

    tools: HostileServer = field(default_factory=lambda: HostileServer(on_call=lambda _params: FOUND))
    url: str = ""
    token_endpoint: str = ""
    authorization_endpoint: str = ""
    issuer: str = ""
    answer: Response | None = None
    """Of the token endpoint, instead of a token."""
    issued: int = 0
    forms: list[dict[str, list[str]]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    refuses: bool = False
    challenge: str = ""
    refresh_tokens: int = 0
    """How many it has issued; only the latest is valid."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.paths.append(scope["path"])
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        match scope["path"]:
            case "/mcp" if headers.get("authorization") == f"Bearer token-{self.issued}":
                await self.tools(scope, receive, send)
            case "/mcp":
                await JSONResponse({}, 401)(scope, receive, send)
            case "/.well-known/oauth-protected-resource/mcp":
                named = {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]}
                await JSONResponse(named)(scope, receive, send)
            case "/.well-known/oauth-authorization-server":
                named = {
                    "issuer": self.issuer or self.url,
                    "token_endpoint": self.token_endpoint or f"{self.url}/token",
                    "authorization_endpoint": self.authorization_endpoint or f"{self.url}/authorize",
                    "registration_endpoint": f"{self.url}/register",
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                }
                await JSONResponse(named)(scope, receive, send)
            case "/register":
                about = json.loads(await read_body(receive))
                await JSONResponse({**about, "client_id": "registered"}, 201)(scope, receive, send)
            case "/authorize":
                asked = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
                self.challenge = asked["code_challenge"]
                back = f"{asked['redirect_uri']}?code=c0de&state={asked['state']}"
                await RedirectResponse(back)(scope, receive, send)
            case "/token":
                self.forms.append(parse_qs((await read_body(receive)).decode()))
                self.headers.append(headers.get("authorization", ""))
                await (self.answer or self._issue)(scope, receive, send)
            case _:
                await JSONResponse({}, 404)(scope, receive, send)

    async def _issue(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = {name: values[0] for name, values in self.forms[-1].items()}
        match form["grant_type"]:
            case "authorization_code":
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                is_valid = base64.urlsafe_b64encode(digest).decode().rstrip("=") == self.challenge
            case "refresh_token":
                is_valid = form["refresh_token"] == f"refresh-{self.refresh_tokens}"
            case _:
                is_valid = True
        if self.refuses or not is_valid:
            await JSONResponse({"error": SECRET}, 400)(scope, receive, send)
            return
        self.issued += 1
        token = {"access_token": f"token-{self.issued}", "token_type": "Bearer", "expires_in": 3600}
        if form["grant_type"] != "client_credentials":
            self.refresh_tokens += 1
            token["refresh_token"] = f"refresh-{self.refresh_tokens}"
        await JSONResponse(token)(scope, receive, send)


@asynccontextmanager
async def protected() -> AsyncIterator[Protected]:
    server = Protected()
    async with serve_on_loopback(server) as server.url:
        yield server


def a_server(server: Protected, oauth: dict[str, Any]) -> dict[str, Any]:
    """The server as a graph configures it."""
    return {"type": "http", "url": f"{server.url}/mcp", "tools": {"search": "state_change"}, "oauth": oauth}


@asynccontextmanager
async def connected(
    connector: McpConnector, server: Protected, **oauth: Any
) -> AsyncIterator[McpConnections]:
    client = {"client_id": "runtally", "client_secret": "${CLIENT}", **oauth}
    spec = HttpServer.model_validate(a_server(server, client))
    connections = await connector.connect({"library": spec}, ["library__search"], graph="librarian")
    try:
        yield connections
    finally:
        await connections.aclose()


@pytest.fixture
def connector(schemas: SchemaChecker) -> McpConnector:
    return McpConnector({"CLIENT": SecretStr(SECRET)}, schemas)


async def test_a_token_is_got_with_the_clients_secret_and_shared_by_runs(connector: McpConnector) -> None:
    async with protected() as server:
        for _ in range(2):
            async with connected(connector, server, scopes=["read", "write"]) as connections:
                result = await Calls(connections.tools).call("library__search")

    assert result.markdown == "found"
    assert server.forms == [
        {"grant_type": ["client_credentials"], "resource": [f"{server.url}/mcp"], "scope": ["read write"]}
    ]
    pair = base64.b64encode(b"runtally:s%3Acret%2Fof%20the%20client").decode()
    assert server.headers == [f"Basic {pair}"]


async def test_a_refused_token_is_replaced_within_the_call(connector: McpConnector) -> None:
    async with protected() as server:
        endpoint = {"token_url": f"{server.url}/token", "client_auth": "post"}
        async with connected(connector, server, **endpoint) as connections:
            server.issued += 1
            result = await Calls(connections.tools).call("library__search")

    assert result.markdown == "found"
    assert [form["client_secret"] for form in server.forms] == [[SECRET]] * 2
    assert server.tools.methods.count("tools/call") == 1


async def test_a_server_that_cannot_be_authorized_is_unavailable_and_no_secret_is_logged(
    connector: McpConnector,
) -> None:
    async with protected() as server:
        server.refuses = True
        with written_log() as written, pytest.raises(McpServerUnavailable):
            async with connected(connector, server):
                pass

    (line,) = written.of("mcp_server.unauthorized")
    assert (line["server"], line["reason"]) == ("library", "the token endpoint answers with status 400")
    assert SECRET not in written.getvalue()


@pytest.mark.parametrize(
    "endpoint", ["http://169.254.169.254/token", "http://localhost:1/token", "file:///x"]
)
async def test_a_server_cannot_send_the_secret_to_another_host_without_https(
    connector: McpConnector, endpoint: str
) -> None:
    async with protected() as server:
        server.token_endpoint = endpoint
        with written_log() as written, pytest.raises(McpServerUnavailable):
            async with connected(connector, server):
                pass

    (line,) = written.of("mcp_server.unauthorized")
    assert "without https" in line["reason"] or "not valid" in line["reason"]


ODD_ENDPOINTS = ["https://[bad/token", "https://h:abc/token", "https://a b\n/token", "https://127.0.0.1:1/\0"]
ODD_TOKENS = ["", "t\r\nx: y", "t\u2603"]


@pytest.mark.parametrize(
    ("endpoint", "token"), [*((each, "t") for each in ODD_ENDPOINTS), *(("", each) for each in ODD_TOKENS)]
)
async def test_an_odd_answer_of_an_authorization_server_is_named(
    connector: McpConnector, tmp_path: Path, endpoint: str, token: str
) -> None:
    async with protected() as server:
        server.token_endpoint = endpoint
        server.answer = JSONResponse({"access_token": token, "token_type": "Bearer"})
        client = {"client_id": "runtally", "client_secret": "${CLIENT}"}
        spec = HttpServer.model_validate(a_server(server, client))
        with pytest.raises(OAuthFailed):
            await connector.require_token(LoginKey("librarian", "library"), spec)
        settings = settings_with_graph(server, tmp_path, "postgresql://127.0.0.1:1/none")
        with pytest.raises(LoginFailed):
            await consent(settings.model_copy(update={"mcp_token_key": KEY}))


@pytest.mark.parametrize("lifetime", [10**400, -5])
async def test_a_token_whose_lifetime_is_none_is_used(connector: McpConnector, lifetime: int) -> None:
    async with protected() as server:
        token = {"access_token": "token-0", "token_type": "Bearer", "expires_in": lifetime}
        server.answer = JSONResponse(token)
        async with connected(connector, server) as connections:
            result = await Calls(connections.tools).call("library__search")

    assert result.markdown == "found"


KEY = SecretStr("k" * 32)
CODE = {"grant": "authorization_code", "client_id": None, "client_secret": None}


async def consent(
    settings: Settings, *, graph: str = "claude_agents:librarian", paste: Callable[[str], str] | None = None
) -> None:
    """Log in, with a browser that opens what is printed.

    `paste` makes the line that is pasted of the address that the browser was sent to.
    """
    console = Console(file=io.StringIO(), width=200)
    reading, writing = os.pipe()
    terminal, keyboard = os.fdopen(reading), os.fdopen(writing, "w", buffering=1)
    logging_in = asyncio.create_task(
        login(
            settings,
            console,
            graph=graph,
            server="library",
            port=0,
            pasted=None if paste is None else terminal,
        )
    )
    assert isinstance(console.file, io.StringIO)
    while not logging_in.done() and not (
        found := re.search(r"http\S+/authorize\S+", console.file.getvalue())
    ):
        await asyncio.sleep(0.01)
    if not logging_in.done() and found:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
            sent_to = (await browser.get(found[0])).headers["location"]
            if paste is None:
                forged = re.sub(r"state=[^&]*", "state=forged", sent_to)
                assert (await browser.get(forged)).status_code == 404
                assert "close this page" in (await browser.get(sent_to)).text
            else:
                keyboard.write(f"{paste(sent_to)}\n")
    with terminal, keyboard:
        await logging_in


def settings_with_graph(
    server: Protected, directory: Path, database_url: str, *, issuer: str | None = None, **more: Any
) -> Settings:
    oauth = {name: value for name, value in {**CODE, "issuer": issuer}.items() if value is not None}
    spec = {"description": "d", "mcp_servers": {"library": a_server(server, oauth)}}
    (directory / "librarian.md").write_text(f"---\n{yaml.safe_dump(spec)}---\nLook it up.\n")
    values = {"RUNTALLY_GRAPHS_DIR": directory, "DATABASE_URL": database_url, "RUNTALLY_DATA_DIR": directory}
    return Settings.load(**{**values, **more})


async def test_a_login_is_encrypted_shared_and_renewed(
    connector: McpConnector, database: Database, database_url: str, tmp_path: Path
) -> None:
    def another() -> McpConnector:
        return McpConnector({}, connector.schemas, McpLogins(database, KEY))

    async with protected() as server:
        await consent(settings_with_graph(server, tmp_path, database_url, RUNTALLY_MCP_TOKEN_KEY="k" * 32))
        sealed = await scalar(database, "SELECT sealed FROM mcp_logins")
        first, second = another(), another()
        async with connected(first, server, **CODE) as connections:
            before = await Calls(connections.tools).call("library__search")
            requested = len(server.forms)
            server.issued += 1
            refreshed = await Calls(connections.tools).call("library__search")
        # What one process has renewed the other uses.
        async with connected(second, server, **CODE) as connections:
            shared = await Calls(connections.tools).call("library__search")

    assert b"token" not in sealed
    assert (before.markdown, refreshed.markdown, shared.markdown) == ("found",) * 3
    assert requested == 1
    assert [form["grant_type"] for form in server.forms] == [["authorization_code"], ["refresh_token"]]
    assert server.forms[1]["client_id"] == ["registered"]


async def test_a_login_needs_a_key_and_a_server_that_wants_one(
    connector: McpConnector, database: Database, database_url: str, tmp_path: Path
) -> None:
    async with protected() as server:
        without_key = settings_with_graph(server, tmp_path, database_url)
        with pytest.raises(TokenKeyMissing):
            await consent(without_key)
        with pytest.raises(NoSuchLogin):
            await consent(without_key.model_copy(update={"mcp_token_key": KEY}), graph="other")
        reasons = []
        for logins in (None, McpLogins(database, KEY)):
            unused = McpConnector({}, connector.schemas, logins)
            with written_log() as written, pytest.raises(McpServerUnavailable):
                async with connected(unused, server, **CODE):
                    pass
            reasons += [line["reason"] for line in written.of("mcp_server.unauthorized")]

    assert reasons == [
        "RUNTALLY_MCP_TOKEN_KEY is not set",
        "there is no login: use runtally mcp login librarian library",
    ]
