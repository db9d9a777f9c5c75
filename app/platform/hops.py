"""Hops: at which of the connections on the way to another machine a request fails."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import httpx2

_PROXY: Final = "the proxy (RUNTALLY_HTTPS_PROXY)"
_CREDENTIALS_REFUSED: Final = 407
_SERVER_ERROR: Final = 500
_INVALID: Final = {
    10: "has expired",
    62: "is for another host",
    64: "is for another address",
}
"""By OpenSSL's codes; all others mean that no known authority has issued it."""

TraceCallback = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class HopFailed(httpx2.ConnectError):
    """There is no connection, so nothing was sent. The text says at which hop; it contains no secret."""


def reason_of(error: BaseException) -> str:
    """Why there was no response, for the operator: the hop if it is known."""
    return str(error) if isinstance(error, HopFailed) else type(error).__name__


async def send_directly(transport: httpx2.AsyncBaseTransport, request: httpx2.Request) -> httpx2.Response:
    """Send a request without a proxy; raises `HopFailed` if the host's certificate is not accepted."""
    try:
        return await transport.handle_async_request(request)
    except httpx2.ConnectError as error:
        if (problem := _problem_of_certificate(error)) is None:
            raise
        raise HopFailed(f"the certificate of {_host(request)} {problem}", request=request) from error


async def send_through(transport: httpx2.AsyncBaseTransport, request: httpx2.Request) -> httpx2.Response:
    """Send a request by a transport that has a proxy; raises `HopFailed`.

    All connections of the way together may take as long as a direct one.
    """
    extensions = request.extensions
    tunnel = _Tunnel(extensions.get("trace"), extensions.get("timeout", {}).get("connect"))
    request.extensions = {**extensions, "trace": tunnel.trace}
    try:
        async with tunnel.limit:
            return await transport.handle_async_request(request)
    except (httpx2.TransportError, TimeoutError) as error:
        if tunnel.hop is None:
            raise
        raise HopFailed(tunnel.failure(request, error), request=request) from error
    finally:
        request.extensions = extensions


class _Tunnel:
    """Follows the way of one request, by the library's trace.

    The caller's trace begins behind the proxy: its events do not tell the request for a tunnel from the one
    that the tunnel is for, and only the latter costs something.
    """

    def __init__(self, caller: TraceCallback | None, connect_s: float | None) -> None:
        self._caller = caller
        self._status: int | None = None
        self.limit = asyncio.timeout(connect_s)
        self.hop: Literal["proxy", "target", "certificate"] | None = "proxy"
        """What is connected to now; None: the request is under way."""

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "http11.send_request_headers.started":
            self._begin(info["request"].method)
        elif event == "http11.receive_response_headers.complete" and self.hop == "target":
            self._status = info["return_value"][1]
        elif event == "proxy.start_tls.started":
            self.hop = "certificate"
        if self.hop is None and self._caller is not None:
            await self._caller(event, info)

    def _begin(self, method: bytes) -> None:
        if method == b"CONNECT":
            self.hop = "target"
        else:
            self.hop = None
            self.limit.reschedule(None)

    def failure(self, request: httpx2.Request, error: Exception) -> str:
        """The hop that has failed, in a sentence."""
        certificate, kind = _problem_of_certificate(error), type(error).__name__
        if self.hop == "certificate":
            host = _host(request)
            return f"the certificate of {host} {certificate}" if certificate else f"TLS with {host}: {kind}"
        if certificate:
            return f"the certificate of {_PROXY} {certificate}"
        if self.hop == "proxy":
            return f"{_PROXY} cannot be reached: {kind}"
        if self._status == _CREDENTIALS_REFUSED:
            return f"{_PROXY} does not accept its user name and password ({self._status})"
        refuses = self._status is not None and self._status < _SERVER_ERROR
        what = "refuses to connect" if refuses else "cannot connect"
        return f"{_PROXY} {what} to {request.url.netloc.decode('ascii')} ({self._status or kind})"


def _host(request: httpx2.Request) -> str:
    """The host that the certificate has to be for."""
    host: str = request.extensions.get("sni_hostname") or request.url.host
    return host


def _problem_of_certificate(error: BaseException | None) -> str | None:
    """What is wrong with a certificate; None if that is not the reason."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            unknown = "is of an authority that is not trusted: add it to RUNTALLY_CA_FILE"
            return _INVALID.get(error.verify_code, unknown)
        # The library hides the cause of some errors.
        error = error.__cause__ or error.__context__
    return None
