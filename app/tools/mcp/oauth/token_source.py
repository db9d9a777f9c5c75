"""TokenSource: the access token for one MCP server, kept while it is valid."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from typing import Protocol
from urllib.parse import quote

import httpx2
import structlog
from mcp.shared.auth import OAuthToken
from mcp.shared.auth_utils import resource_url_from_server_url

from app.platform.network import Network
from app.tools.mcp.oauth.endpoints import OAuthFailed, OAuthHttp
from app.tools.mcp.spec import OAuthClient

log = structlog.get_logger(__name__)

MARGIN_S = 30.0
"""How long before its end a token is no longer used."""
_UNAUTHORIZED = 401


class TokenGrant(Protocol):
    """How a token is got."""

    async def request(self, *, refused: str | None) -> OAuthToken:
        """An access token, another one than the server has refused; raises `OAuthFailed`."""
        ...


class ClientCredentials:
    """The server's own credentials; see RFC 6749, section 4.4."""

    def __init__(self, server_url: str, client: OAuthClient, secret: str, *, network: Network) -> None:
        self._server_url = server_url
        self._network = network
        self._client = client
        self._secret = secret

    async def request(self, *, refused: str | None) -> OAuthToken:  # noqa: ARG002 - each is a new one
        client = self._client
        form = {
            "grant_type": "client_credentials",
            "resource": resource_url_from_server_url(self._server_url),
        }
        if client.scopes:
            form["scope"] = " ".join(client.scopes)
        async with OAuthHttp(self._server_url, self._network) as http:
            url = client.token_url or (await http.metadata(client.issuer)).token_endpoint
            more, headers = client_authentication(
                str(client.client_id), self._secret, in_body=client.client_auth == "post"
            )
            return await http.token(url, form | more, headers)


def client_authentication(
    client_id: str, secret: str | None, *, in_body: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """The fields and headers by which a client authenticates for a token; see RFC 6749, section 2.3."""
    if secret is None:
        return {"client_id": client_id}, {}
    if in_body:
        return {"client_id": client_id, "client_secret": secret}, {}
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return {}, {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


class TokenSource:
    """Shared by all runs of this process that use the server."""

    def __init__(self, server: str, grant: TokenGrant) -> None:
        self._server = server
        self._grant = grant
        self._token: str | None = None
        self._until = 0.0
        self._requesting = asyncio.Lock()

    async def token(self, *, refused: str | None = None) -> str:
        """An access token, another one than the server has refused; raises `OAuthFailed`."""
        async with self._requesting:
            now = asyncio.get_running_loop().time()
            if self._token is not None and now < self._until and self._token != refused:
                return self._token
            try:
                found = await self._grant.request(refused=refused)
            except OAuthFailed as error:
                log.warning("mcp_server.unauthorized", server=self._server, reason=str(error))
                raise
            self._token = found.access_token
            # Without a lifetime it is used until the server refuses it.
            self._until = float("inf") if found.expires_in is None else now + found.expires_in - MARGIN_S
            return self._token


class OAuth(httpx2.Auth):
    """Sends the token with each request; once another one if the server refuses it."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def authorize(self) -> None:
        """Have a token for the next request; raises `OAuthFailed`."""
        await self._source.token()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await self._source.token()
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == _UNAUTHORIZED:
            token = await self._source.token(refused=token)
            request.headers["authorization"] = f"Bearer {token}"
            yield request
