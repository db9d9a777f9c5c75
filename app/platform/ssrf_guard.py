"""AddressPolicy: protects the operator's network from hosts that others choose (SSRF).

Tenants choose the URLs of webhooks, and a model what its commands connect to, by names whose addresses belong
to others. This server must not connect to what only the operator's network can reach. Names are resolved
here, each of their addresses is checked, and only checked addresses are connected to, so a changed DNS record
(DNS rebinding) has no effect.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Self, TypeAlias

import httpx2

from app.platform.network import is_host_name

MAX_URL_CHARS = 2000

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves (host, port) to addresses; raises `OSError` if there are none."""

_THREADS = 64
_MAX_ADDRESSES = 8
_MAX_PORT = 65_535
_NAT64 = ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ip_network("2000::/3")
_SPECIAL_PURPOSE = tuple(
    ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
        *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
        # IPv6 networks inside the global unicast range. Tunnels hide their real destination.
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)
"""IANA's special-purpose address registries for IPv4 and IPv6, and multicast; as of November 2026."""

_LOCAL_SUFFIXES = ("localhost", "localdomain", "local", "internal", "intranet", "lan", "home.arpa")
"""These names and those below them: resolved by the system itself or by the local network's DNS only."""

_ALWAYS_REFUSED = tuple(
    ip_network(network)
    for network in (
        *("169.254.0.0/16", "fe80::/10"),
        # Metadata services of clouds outside the link-local range: they hand out a machine's credentials.
        *("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),
        *("fd00:ec2::254/128", "fd20:ce::254/128"),
    )
)
"""Refused even where private addresses are allowed: no receiver has such an address."""


class UrlRefused(ValueError):
    """The URL is not allowed; the text states the requirement."""


class AddressRefused(Exception):
    """The host has an address that must not be called."""


class NameNotFound(Exception):
    """The host has no address now."""


class AddressPolicy:
    """Checks URLs and resolves them to allowed addresses; an async context manager."""

    def __init__(self, *, allow_private: bool = False, resolver: Resolver | None = None) -> None:
        self._allow_private = allow_private
        # Separate threads: slow name servers of tenants must not block other work.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="host-names")
        self._resolver = resolver or self._system_addresses

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Shut the threads down; one that waits for a name server ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def check_url(self, text: str) -> httpx2.URL:
        """Parse a URL and check all that needs no name resolution; raises `UrlRefused`."""
        if len(text) > MAX_URL_CHARS or not (text.isascii() and text.isprintable()) or " " in text:
            raise UrlRefused(f"must be a URL of at most {MAX_URL_CHARS} ASCII characters without spaces")
        try:
            url = httpx2.URL(text)
        except httpx2.InvalidURL as error:
            raise UrlRefused("is not a URL") from error
        schemes = ("https", "http") if self._allow_private else ("https",)
        if url.scheme not in schemes or not url.raw_host:
            message = f"must start with {' or '.join(f'{scheme}://' for scheme in schemes)} and a host"
            raise UrlRefused(message)
        if url.userinfo or url.fragment:
            raise UrlRefused("must have neither a user name nor a fragment")
        if url.port is not None and not 0 < url.port <= _MAX_PORT:
            raise UrlRefused(f"must have a port from 1 to {_MAX_PORT}")
        if _literal(url) is None and not is_host_name(_host(url)):
            message = "must have a host of letters, digits, hyphens and dots, or an address written in full"
            raise UrlRefused(message)
        return url

    async def resolve(self, url: httpx2.URL) -> list[str]:
        """Every address of the URL's host; raises `AddressRefused` or `NameNotFound`."""
        if literal := _literal(url):
            return self._callable([literal])
        return await self.resolve_name(_host(url), url.port or (443 if url.scheme == "https" else 80))

    async def resolve_name(self, host: str, port: int) -> list[str]:
        """Every address of a host name; raises `AddressRefused` or `NameNotFound`."""
        name = f".{host.removesuffix('.')}"
        if not self._allow_private and name.endswith(tuple(f".{local}" for local in _LOCAL_SUFFIXES)):
            raise AddressRefused
        try:
            found = await self._resolver(host, port)
        except (OSError, UnicodeError) as error:
            raise NameNotFound from error
        return self._callable(found)

    def _callable(self, found: Sequence[str]) -> list[str]:
        """The addresses, unless there is none, or one that is refused: the caller chooses which is called."""
        if not found:
            raise NameNotFound
        if not all(self._is_callable(address) for address in found):
            raise AddressRefused
        return list(found[:_MAX_ADDRESSES])

    async def _system_addresses(self, host: str, port: int) -> Sequence[str]:
        def look_up() -> list[str]:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(address[0]) for *_, address in found))

        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up)

    def _is_callable(self, text: str) -> bool:
        address = _effective_address(ip_address(text))
        if (
            any(address in network for network in _ALWAYS_REFUSED)
            or address.is_multicast
            or address.is_unspecified
        ):
            return False
        return self._allow_private or is_public(address)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is reachable from the whole internet, so that calling it gives no extra access."""
    address = _effective_address(address)
    if not address.is_global or any(address in network for network in _SPECIAL_PURPOSE):
        return False
    return isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST


def _host(url: httpx2.URL) -> str:
    # The raw host: httpx2 fails to decode some names.
    return url.raw_host.decode("ascii")


def _literal(url: httpx2.URL) -> str | None:
    """The address in the URL itself, if its host is one."""
    try:
        return str(ip_address(_host(url).removesuffix(".")))
    except ValueError:
        return None


def _effective_address(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address is translated to by the machine or its network."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
