"""OAuthHttp: requests to authorization servers, with limits, and the metadata that names their endpoints."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Annotated
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    issuers_match,
)
from mcp.shared.auth import OAuthToken, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import BaseModel, Field, ValidationError

from app.platform.hops import reason_of
from app.platform.network import Network
from app.platform.outgoing import HttpSender, ResponseRefused, is_compressed, outgoing_transport

_TIMEOUT_S = 10.0
"""For a whole response: runs wait for a refresh of their login even if they are cancelled."""
_MAX_BYTES = 64 * 1024
_OK = 200
_ODD_ANSWER = "the token endpoint's answer is no token"
_IN_HEADER = re.compile(r"[\x21-\x7e]+")
_LONGEST_LIFE_S = 10 * 365 * 86_400


class OAuthFailed(Exception):
    """There is no access token; the text is for the operator and has no secret or upstream text."""


class ServerMetadata(BaseModel):
    """What is needed of an authorization server's metadata; see RFC 8414."""

    issuer: str
    token_endpoint: Annotated[str, Field(pattern=r"^https?://", max_length=2000)]


class OAuthHttp(HttpSender):
    """Requests for one MCP server; they have none of the headers for it, and follow no redirects.

    Addresses that a server names, and the operator has not, must be `https`, or on the server's own host: a
    server must not send requests, or the client's secret, to addresses of this network.
    """

    def __init__(self, server_url: str, network: Network) -> None:
        super().__init__(httpx2.Timeout(_TIMEOUT_S), network=network)
        self._server_url = server_url

    async def metadata(self, issuer: str | None) -> ServerMetadata:
        """The metadata of the authorization server; without an issuer of the one that the server names."""
        named = issuer or await self._named_issuer()
        expected = named or _origin(self._server_url)
        for url in build_oauth_authorization_server_metadata_discovery_urls(named, self._server_url):
            if (body := await self._get(url, is_named=issuer is None)) is None:
                continue
            metadata = _parsed(body)
            if not issuers_match(metadata.issuer, expected):
                raise OAuthFailed("the metadata of the authorization server is that of another one")
            if issuer is None:
                self._require_allowed(metadata.token_endpoint)
            return metadata
        raise OAuthFailed("the authorization server has no metadata; configure token_url")

    async def token(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> OAuthToken:
        """Request a token; raises `OAuthFailed`."""
        status, body = await self._response("POST", url, data=dict(form), headers=dict(headers))
        if status != _OK:
            raise OAuthFailed(f"the token endpoint answers with status {status}")
        try:
            return usable_token(OAuthToken.model_validate_json(body))
        except ValidationError as error:
            raise OAuthFailed(_ODD_ANSWER) from error

    async def _named_issuer(self) -> str | None:
        """The authorization server that the MCP server's metadata names; None if it has none."""
        for url in build_protected_resource_metadata_discovery_urls(None, self._server_url):
            if (body := await self._get(url, is_named=True)) is None:
                continue
            try:
                metadata = ProtectedResourceMetadata.model_validate_json(body)
            except ValidationError as error:
                raise OAuthFailed("the server's metadata is not valid") from error
            resource = resource_url_from_server_url(self._server_url)
            if not check_resource_allowed(
                requested_resource=resource, configured_resource=str(metadata.resource)
            ):
                raise OAuthFailed("the server's metadata is that of another server")
            return str(metadata.authorization_servers[0])
        return None

    async def _get(self, url: str, *, is_named: bool) -> bytes | None:
        if is_named:
            self._require_allowed(url)
        status, body = await self._response("GET", url)
        return body if status == _OK else None

    def _require_allowed(self, url: str) -> None:
        require_allowed(url, self._server_url)

    async def _response(
        self,
        method: str,
        url: str,
        *,
        data: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        own = {"accept": "application/json", "user-agent": "runtally", **(headers or {})}
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                request = httpx2.Request(method, url, data=data, headers=own)
                response = await self._fetch(request, max_bytes=_MAX_BYTES)
                return response.status_code, response.content
        except ResponseRefused as error:
            raise OAuthFailed(f"the authorization server's answer is {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError) as error:
            # Also of an address that is none.
            message = f"the authorization server cannot be reached: {reason_of(error)}"
            raise OAuthFailed(message) from error


def require_allowed(url: str, server_url: str) -> None:
    """Raise `OAuthFailed` for an address that this server may not name."""
    try:
        found, own = urlsplit(url), urlsplit(server_url)
    except ValueError as error:
        raise OAuthFailed("the server names an authorization server with an invalid address") from error
    if found.scheme != "https" and (found.scheme, found.hostname) != (own.scheme, own.hostname):
        raise OAuthFailed("the server names an authorization server without https")


def usable_token(token: OAuthToken) -> OAuthToken:
    """The token with a lifetime that can be counted with; raises `OAuthFailed` if no header can have it."""
    if not _IN_HEADER.fullmatch(token.access_token):
        raise OAuthFailed(_ODD_ANSWER)
    if token.expires_in is None:
        return token
    return token.model_copy(update={"expires_in": min(max(token.expires_in, 0), _LONGEST_LIFE_S)})


class LimitedTransport(httpx2.AsyncBaseTransport):
    """Forwards the requests of the library's login to addresses that the server may name, with limits.

    Raises `OAuthFailed`.
    """

    def __init__(self, server_url: str, network: Network) -> None:
        self._server_url = server_url
        self._inner = outgoing_transport(network)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        require_allowed(str(request.url), self._server_url)
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if "location" in response.headers:
            # The library follows redirects, also with a code or a secret.
            await response.aclose()
            raise OAuthFailed("the server redirects a request of the login")
        if is_compressed(response):
            await response.aclose()
            raise OAuthFailed("the server compresses an answer of the login, though the request forbids it")
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_LimitedStream(response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        assert isinstance(self._response.stream, httpx2.AsyncByteStream)  # noqa: S101 - an async client's
        async for chunk in self._response.stream:
            size += len(chunk)
            if size > _MAX_BYTES:
                raise OAuthFailed("the authorization server's answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


def _parsed(body: bytes) -> ServerMetadata:
    try:
        return ServerMetadata.model_validate_json(body)
    except ValidationError as error:
        raise OAuthFailed("the metadata of the authorization server is not valid") from error


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
