"""Outgoing HTTP: every connection to another machine is made here, by the same rules.

Nothing of this machine's environment is used: no `HTTPS_PROXY`, no `.netrc`, no `SSL_CERT_FILE`. A `Network`,
which settings make, has the proxy, the certificate authorities and our certificate.
"""

import asyncio
import base64
import ssl
from asyncio import StreamReader, StreamWriter
from dataclasses import replace
from functools import cache
from typing import Self

import certifi
import httpx2

from app.platform.concurrency.time_slice import TimeSlice
from app.platform.hops import send_directly, send_through
from app.platform.http1 import Http1Transport
from app.platform.network import DIRECT, SYSTEM, Network, Proxy, load_certificate

_KEPT_CONNECTIONS = 64
_IDLE_S = 5.0


class ResponseRefused(httpx2.TransportError):
    """A response is too large, or compressed though the request forbids it."""


def tls_context(network: Network) -> ssl.SSLContext:
    """A new context with the certificate authorities of a network, and its certificate."""
    # The operating system's authorities.
    context = httpx2.create_ssl_context(trust_env=False)
    if network.authorities != SYSTEM:
        context.load_verify_locations(certifi.where())
        if network.authorities is not None:
            context.load_verify_locations(network.authorities)
    if network.certificate is not None:
        load_certificate(context, *network.certificate)
    return context


_shared_tls_context = cache(tls_context)
"""Loading takes 25 ms."""


def _tls_of_proxy(network: Network, proxy: Proxy) -> ssl.SSLContext | None:
    return _shared_tls_context(replace(network, certificate=None)) if proxy.scheme == "https" else None


class TunnelRefused(ConnectionError):
    """The proxy does not connect to an address."""


async def open_stream(
    network: Network, host: str, address: str, port: int
) -> tuple[StreamReader, StreamWriter]:
    """A connection to an address of a host, for bytes that are encrypted already. Raises `OSError`.

    A proxy gets the address, which was checked, and not the name.
    """
    proxy = network.proxy_for("https", host, address)
    if proxy is None:
        return await asyncio.open_connection(address, port)
    name, _, proxy_port = proxy.address.rpartition(":")
    context = _tls_of_proxy(network, proxy)
    reader, writer = await asyncio.open_connection(name.strip("[]"), int(proxy_port), ssl=context)
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        await _open_tunnel(reader, writer, proxy, target)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _open_tunnel(reader: StreamReader, writer: StreamWriter, proxy: Proxy, target: str) -> None:
    writer.write(_tunnel_request(proxy, target))
    try:
        answer = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise TunnelRefused(TunnelRefused.__doc__) from error
    if answer.split(maxsplit=2)[1:2] != [b"200"]:
        raise TunnelRefused(TunnelRefused.__doc__)


def _tunnel_request(proxy: Proxy, target: str) -> bytes:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.credentials is not None:
        pair = base64.b64encode(":".join(proxy.credentials).encode()).decode("ascii")
        lines.append(f"Proxy-Authorization: Basic {pair}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def outgoing_transport(
    network: Network, *, idle_s: float = _IDLE_S, has_streams: bool = False
) -> httpx2.AsyncBaseTransport:
    """A bare transport: unlike a client it follows no redirects and stores no cookies.

    `idle_s` is how long a connection waits for another request; with 0 each request has its own.
    `has_streams`: answers have many pieces, and timeouts but that of the connection are the caller's.
    """
    limits = httpx2.Limits(
        max_connections=None,
        max_keepalive_connections=_KEPT_CONNECTIONS if idle_s else 0,
        keepalive_expiry=idle_s,
    )
    verify = _shared_tls_context(network)
    if has_streams:
        return _OutgoingTransport(
            network, limits, Http1Transport(verify, kept=_KEPT_CONNECTIONS, idle_s=idle_s)
        )
    direct = httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits)
    return _OutgoingTransport(network, limits, direct)


class _OutgoingTransport(httpx2.AsyncBaseTransport):
    """Sends each request directly, or through the proxy."""

    def __init__(self, network: Network, limits: httpx2.Limits, direct: httpx2.AsyncBaseTransport) -> None:
        self._network = network
        verify = _shared_tls_context(network)
        self._direct = self._proxied = direct
        if (proxy := network.proxy) is not None:
            context = _tls_of_proxy(network, proxy)
            self._proxied = httpx2.AsyncHTTPTransport(
                verify=verify,
                trust_env=False,
                limits=limits,
                proxy=httpx2.Proxy(proxy.url, ssl_context=context, auth=proxy.credentials),
            )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx; raises `HopFailed`."""
        url = request.url
        # Webhooks are sent to an address that was checked; the host is what its certificate is for.
        names = (url.host, request.extensions.get("sni_hostname", url.host))
        if self._network.proxy_for(url.scheme, *names) is None:
            return await send_directly(self._direct, request)
        return await send_through(self._proxied, request)

    async def aclose(self) -> None:
        await self._direct.aclose()
        await self._proxied.aclose()


def is_compressed(response: httpx2.Response) -> bool:
    """Whether it has another encoding than `identity`: a small response could be unpacked to a huge one."""
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding.lower() != "identity"


class HttpSender:
    """What calls other machines extends this; an async context manager, which keeps connections open."""

    def __init__(
        self,
        timeout: httpx2.Timeout,
        *,
        network: Network = DIRECT,
        idle_s: float = _IDLE_S,
        has_streams: bool = False,
    ) -> None:
        """`timeout` is for each step of a request; `has_streams`: see `outgoing_transport`."""
        self._timeout = timeout.as_dict()
        self._transport = outgoing_transport(network, idle_s=idle_s, has_streams=has_streams)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
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
