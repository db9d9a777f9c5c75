"""log_in: an operator's consent at the authorization server of an MCP server; authorization code with PKCE.

The flow is the library's. It runs in the operator's terminal, never in a server.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from app.errors import OperatorError
from app.platform.hops import reason_of
from app.platform.network import DIRECT, Network
from app.tools.mcp.oauth.endpoints import LimitedTransport, OAuthFailed, require_allowed, usable_token
from app.tools.mcp.oauth.records import McpLogin
from app.tools.mcp.oauth.service import expiry_of
from app.tools.mcp.spec import OAuthClient
from app.tools.mcp.text import one_line

_TIMEOUT_S = 30.0
_MAX_REASON_CHARS = 500
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "runtally", "version": "1"},
    },
}


class Consent(NamedTuple):
    """What the redirect of the operator's browser brings."""

    code: str
    state: str | None
    issuer: str | None


class LoginFailed(OperatorError):
    """The login did not succeed; the text is the reason."""


class _Storage:
    """The library's storage: what is configured, and what the flow finds."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def log_in(
    url: str,
    client: OAuthClient,
    secret: str | None,
    *,
    redirect_uri: str,
    show: Callable[[str], Awaitable[None]],
    wait: Callable[[], Awaitable[Consent]],
    network: Network = DIRECT,
) -> McpLogin:
    """Get the operator's consent; raises `LoginFailed`.

    `show` takes the address that the operator has to open, `wait` returns what the redirect brings.
    """
    scope = " ".join(client.scopes) or None
    method = _method(client, secret)
    redirect = AnyUrl(redirect_uri)
    configured = None
    if client.client_id is not None:
        configured = OAuthClientInformationFull(
            client_id=client.client_id,
            client_secret=secret,
            redirect_uris=[redirect],
            token_endpoint_auth_method=method or "none",
            scope=scope,
        )
    storage = _Storage(configured)
    about = OAuthClientMetadata(redirect_uris=[redirect], client_name="Runtally", scope=scope)

    async def result() -> AuthorizationCodeResult:
        consent = await wait()
        return AuthorizationCodeResult(code=consent.code, state=consent.state, iss=consent.issuer)

    async def show_allowed(address: str) -> None:
        # Before the operator consents: afterwards the code and the secret would have been sent.
        _require_issuer(provider, client.issuer)
        require_allowed(address, url)
        await show(address)

    provider = OAuthClientProvider(url, about, storage, show_allowed, result)
    await _require_token(url, provider, network)
    return _login_of(url, storage, provider)


def _require_issuer(provider: OAuthClientProvider, issuer: str | None) -> None:
    """Raise `OAuthFailed` if the server names another authorization server than the configured one.

    The library has required that the metadata are those of the server they were requested from.
    """
    metadata = provider.context.oauth_metadata
    if issuer is not None and (metadata is None or not issuers_match(str(metadata.issuer), issuer)):
        raise OAuthFailed("the authorization server that the server names is not the configured issuer")


async def _require_token(url: str, provider: OAuthClientProvider, network: Network) -> None:
    """Make a request that the server refuses without a token."""
    headers = {"accept": "application/json, text/event-stream"}
    try:
        async with (
            httpx2.AsyncClient(
                auth=provider,
                timeout=_TIMEOUT_S,
                trust_env=False,
                follow_redirects=False,
                transport=LimitedTransport(url, network),
            ) as http,
            http.stream("POST", url, json=_HELLO, headers=headers),
        ):
            return
    except (OAuthFlowError, OAuthFailed) as error:
        # It may contain what the server has sent, and is shown in a terminal.
        raise LoginFailed(one_line(str(error), _MAX_REASON_CHARS)) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OverflowError) as error:
        # Also of an address, a token or a lifetime that is none.
        message = f"The server or its authorization server cannot be used: {reason_of(error)}."
        raise LoginFailed(message) from error


def _login_of(url: str, storage: _Storage, provider: OAuthClientProvider) -> McpLogin:
    client, metadata = storage.client, provider.context.oauth_metadata
    if storage.tokens is None or client is None:
        raise LoginFailed("The server requires no login: it answered without a token.")
    if metadata is None:
        raise LoginFailed("The authorization server has no metadata that names its endpoints.")
    try:
        tokens = usable_token(storage.tokens)
    except OAuthFailed as error:
        raise LoginFailed(str(error)) from error
    method = client.token_endpoint_auth_method if client.client_secret else None
    return McpLogin(
        url=url,
        token_url=str(metadata.token_endpoint),
        client_id=client.client_id,
        client_secret=client.client_secret,
        client_auth=None if method == "none" else method,
        resource=provider.context.get_resource_url(),
        refresh_token=tokens.refresh_token,
        access_token=tokens.access_token,
        expires_at=expiry_of(tokens),
    )


def _method(client: OAuthClient, secret: str | None) -> str | None:
    if secret is None:
        return None
    return "client_secret_post" if client.client_auth == "post" else "client_secret_basic"
