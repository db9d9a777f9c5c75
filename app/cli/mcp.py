"""`runtally mcp login`: an operator's consent for an external MCP server, stored for all servers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO
from urllib.parse import parse_qs, urlsplit

from rich.console import Console

from app.bootstrap.catalogs import open_planner
from app.bootstrap.storage import attach_database
from app.errors import Invalid
from app.platform.server.loopback import CONNECTIONS, Receive, Scope, Send, serve_on_socket
from app.platform.settings import Settings
from app.tools.mcp.oauth.login import Consent, LoginFailed, log_in
from app.tools.mcp.oauth.records import LoginKey
from app.tools.mcp.oauth.service import McpLogins
from app.tools.mcp.spec import SECRET, OAuthClient, StdioServer

_PATH = "/callback"


class NoSuchLogin(Invalid):
    """The graph has no such server with oauth and the grant authorization_code."""


class TokenKeyMissing(Invalid):
    """RUNTALLY_MCP_TOKEN_KEY is not set: it encrypts the login."""


async def login(
    settings: Settings, console: Console, *, graph: str, server: str, port: int, pasted: TextIO | None
) -> None:
    """Get the operator's consent and store the tokens.

    `pasted`: where the address of the redirect is read from; None: the redirect is received.
    """
    if settings.mcp_token_key is None:
        raise TokenKeyMissing
    url, client = _configured(settings, graph, server)
    secret = None
    if client.client_secret is not None and (found := SECRET.fullmatch(client.client_secret)):
        secret = settings.mcp_secrets[found[1]].get_secret_value()
    async with _redirects(port, console, pasted=pasted) as redirects:
        found_login = await log_in(
            *(url, client, secret),
            redirect_uri=redirects.uri,
            show=redirects.show,
            wait=redirects.wait,
            network=settings.network,
        )
    async with attach_database(settings) as database:
        key = LoginKey(graph.partition(":")[2] or graph, server)
        await McpLogins(database, settings.mcp_token_key).save(key, found_login)
    console.print(f"Logged in at {server} for the graph {key.graph}.")


def _configured(settings: Settings, graph_id: str, server: str) -> tuple[str, OAuthClient]:
    name = graph_id.partition(":")[2] or graph_id
    for graph in open_planner(settings).graphs.definitions():
        spec = graph.mcp_servers.get(server) if graph.name == name else None
        if spec is None or isinstance(spec, StdioServer) or spec.oauth is None:
            continue
        if spec.oauth.grant == "authorization_code":
            return spec.url, spec.oauth
    raise NoSuchLogin


class _Redirects:
    """Receives the redirect of the browser on this machine."""

    def __init__(self, uri: str, console: Console, *, pasted: TextIO | None) -> None:
        self.uri = uri
        self._console = console
        self._pasted = pasted
        self._state: list[str] | None = None
        """Of the address that was shown; only its redirect has it."""
        self._received: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        query = scope["query_string"].decode(errors="replace")
        state = parse_qs(query).get("state")
        is_redirect = scope["path"] == _PATH and state is not None and state == self._state
        if is_redirect and not self._received.done():
            self._received.set_result(query)
        text = b"Runtally has received the answer. You can close this page." if is_redirect else b"Not found."
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        status = 200 if is_redirect else 404
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def show(self, address: str) -> None:
        """Ask the operator to open the address."""
        self._state = parse_qs(urlsplit(address).query).get("state")
        self._console.print("Open this address in your browser, and consent:")
        self._console.print(address, soft_wrap=True, markup=False)

    async def wait(self) -> Consent:
        """What the redirect brings; raises `LoginFailed` if there is no consent."""
        if self._pasted is not None:
            prompt = "The address that you were sent to: "
            line = await asyncio.to_thread(self._console.input, prompt, stream=self._pasted)
            if not line.strip().startswith(f"{self.uri}?"):
                message = f"This is not the address that you were sent to: it begins with {self.uri}?"
                raise LoginFailed(message)
            query = urlsplit(line.strip()).query
        else:
            query = await self._received
        found = {name: values[0] for name, values in parse_qs(query).items()}
        if "code" not in found:
            message = f"There is no consent: {found.get('error', 'the address has no code')[:200]!r}."
            raise LoginFailed(message)
        return Consent(found["code"], found.get("state"), found.get("iss"))


@asynccontextmanager
async def _redirects(port: int, console: Console, *, pasted: TextIO | None) -> AsyncIterator[_Redirects]:
    listening = socket.create_server(("127.0.0.1", port))
    redirects = _Redirects(f"http://127.0.0.1:{listening.getsockname()[1]}{_PATH}", console, pasted=pasted)
    async with serve_on_socket(redirects, listening, connections=CONNECTIONS):
        yield redirects
