"""Outgoing HTTP: every connection to another machine is made here, by the same rules.

Nothing of this machine's environment is used: no proxy, no `.netrc`, no `SSL_CERT_FILE`.
"""

import ssl
from functools import cache
from typing import Self

import certifi
import httpx2

from app.platform.concurrency.time_slice import TimeSlice

_KEPT_CONNECTIONS = 64
_IDLE_S = 5.0


class ResponseRefused(httpx2.TransportError):
    """A response is too large, or compressed though the request forbids it."""


@cache
def _tls_context() -> ssl.SSLContext:
    """The operating system's certificate authorities and the usual ones. Cached: loading takes 25 ms."""
    context = httpx2.create_ssl_context(trust_env=False)
    context.load_verify_locations(certifi.where())
    return context


def outgoing_transport(
    *, idle_s: float = _IDLE_S, authorities: ssl.SSLContext | None = None
) -> httpx2.AsyncHTTPTransport:
    """A bare transport: unlike a client it follows no redirects and stores no cookies.

    `idle_s` is how long a connection waits for another request; with 0 each request has its own.
    """
    limits = httpx2.Limits(
        max_connections=None,
        max_keepalive_connections=_KEPT_CONNECTIONS if idle_s else 0,
        keepalive_expiry=idle_s,
    )
    return httpx2.AsyncHTTPTransport(verify=authorities or _tls_context(), trust_env=False, limits=limits)


def is_compressed(response: httpx2.Response) -> bool:
    """Whether it has another encoding than `identity`: a small response could be unpacked to a huge one."""
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding.lower() != "identity"


class HttpSender:
    """What calls other machines extends this; an async context manager, which keeps connections open."""

    def __init__(
        self, timeout: httpx2.Timeout, *, idle_s: float = _IDLE_S, authorities: ssl.SSLContext | None = None
    ) -> None:
        """`timeout` is for each step of a request."""
        self._timeout = timeout.as_dict()
        self._transport = outgoing_transport(idle_s=idle_s, authorities=authorities)

    async def __aenter__(self) -> Self:
        """Open."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """The response; the caller must read and close its body."""
        request.extensions.setdefault("timeout", self._timeout)
        response = await self._transport.handle_async_request(request)
        response.request = request
        return response

    async def _fetch(self, request: httpx2.Request, *, max_bytes: int) -> httpx2.Response:
        """The whole response, or an error's without its body; raises `ResponseRefused`."""
        request.headers["accept-encoding"] = "identity"
        response = await self._send(request)
        try:
            body = await _body_of(response, max_bytes) if response.is_success else b""
        finally:
            await response.aclose()
        response.headers.pop("content-encoding", None)
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=request)


async def _body_of(response: httpx2.Response, max_bytes: int) -> bytes:
    if is_compressed(response):
        raise ResponseRefused("compressed")
    body, time_slice = bytearray(), TimeSlice()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > max_bytes:
            raise ResponseRefused("too large")
        await time_slice.checkpoint()
    return bytes(body)
