"""RelayAddress: what REDIS_URL names. RelayNotUsable: why the start refuses it."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeout

from app.errors import OperatorError

_SENTINEL = "+sentinel"
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_COMMAND = re.compile(r"['`](?:\w+\|)?(\w+)['`]")
"""How a server quotes what it refuses."""

Host: TypeAlias = tuple[str, int]


class MessageLost(RedisConnectionError):
    """What was sent through the relay did not come back."""


class WrongServer(RedisError):
    """The server cannot be a relay; the text says why."""


class NotAnAddress(ValueError):
    """The URL is none; the text says why, without a part of it."""


class RelayNotUsable(OperatorError):
    """The relay of REDIS_URL cannot be used; the text names it, the reason and the next step."""

    @classmethod
    def of(cls, address: str, error: BaseException) -> Self:
        """The error for a failed attempt to use it."""
        return cls(f"REDIS_URL ({address}): {problem_of(error)}.")


_BY_TEXT = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted; add its authority to RUNTALLY_CA_FILE",
    "SSL|certificate": "TLS with it failed; use rediss:// for a server with TLS, redis:// for one without",
    "Name or service not known|name resolution": (
        "the host name cannot be resolved; correct it, or the name service of this machine"
    ),
    "to access .*channel": "its user may not use the channels runtally:*; add &runtally:*",
    "to access .*key": "its user may not use the keys runtally:*; add ~runtally:*",
}
_BY_TYPE: dict[type[BaseException], str] = {
    AuthenticationError: "user or password are wrong, or missing; correct them",
    ClusterDownError: "the cluster is down or lacks a shard; CLUSTER INFO of its nodes has the state",
    BusyLoadingError: "it loads its data; wait until it has, and start again",
    OutOfMemoryError: "its memory is full; raise its maxmemory",
    ReadOnlyError: "it is a replica; name the master, or Sentinels",
    MessageLost: "it delivers no messages; name the server itself, not what spreads connections",
    TimeoutError: "it does not answer in time; check host, port, firewall and whether it expects TLS",
    RedisTimeout: "it does not answer in time; check host, port, firewall and whether it expects TLS",
    RedisConnectionError: "nothing answers there; start Valkey or Redis, or correct host and port",
    OSError: "nothing answers there; start Valkey or Redis, or correct host and port",
}


def problem_of(error: BaseException) -> str:
    """What is wrong, and what to do; no part of it is the server's text."""
    if isinstance(error, RedisConnectionError) and isinstance(error.__cause__, RedisError):
        # What went wrong before it was connected.
        return problem_of(error.__cause__)
    if isinstance(error, WrongServer):
        return str(error)
    text = f"{error} {error.__cause__ or ''}"
    known = [
        *(problem for pattern, problem in _BY_TEXT.items() if re.search(pattern, text)),
        *(problem for kind, problem in _BY_TYPE.items() if isinstance(error, kind)),
    ]
    if known:
        return known[0]
    refused = _COMMAND.search(text)
    what = refused[1].upper() if refused else f"commands ({type(error).__name__})"
    return f"it refuses {what}; docs/operations/storage.md has the commands that its user needs"


@dataclass(frozen=True, slots=True)
class RelayAddress:
    """One server, some nodes of a cluster, or the Sentinels that know the master of a service."""

    hosts: tuple[Host, ...]
    """Empty for a socket."""
    service: str | None
    options: dict[str, Any] = field(repr=False)
    """Of connections to the relay."""
    sentinel_login: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        """Without user and password."""
        return ",".join(f"{host}:{port}" for host, port in self.hosts) or str(self.options["path"])

    @classmethod
    def parse(cls, url: str, *, ca_file: Path | None = None) -> Self:
        """Raises `ValueError`, where we know what is wrong `NotAnAddress`.

        `ca_file`: certificate authorities besides the usual ones, where the URL names none.
        """
        parts = urlsplit(url)
        user, at, hosts = parts.netloc.rpartition("@")
        service, path = None, parts.path
        if parts.scheme.endswith(_SENTINEL):
            service, _, database = path.strip("/").partition("/")
            path = f"/{database}"
            if not service:
                raise NotAnAddress("the name of the service is missing after the Sentinels")
        scheme = parts.scheme.removesuffix(_SENTINEL)
        if scheme == "unix" and not path:
            raise NotAnAddress("the path of the socket is missing")
        options: dict[str, Any] = {**parse_url(f"{scheme}://{user}{at}{path}?{parts.query}")}
        login = {
            name: options.pop(f"sentinel_{name}")
            for name in ("username", "password")
            if f"sentinel_{name}" in options
        }
        if ca_file is not None and options.get("connection_class") is SSLConnection:
            options.setdefault("ssl_ca_certs", str(ca_file))
        _require_known(options)
        return cls(() if scheme == "unix" else tuple(map(_host, hosts.split(","))), service, options, login)


def _require_known(options: dict[str, Any]) -> None:
    for name in _FILES:
        if name in options and not Path(options[name]).is_file():
            raise NotAnAddress(f"there is no file as {name} names it")
    given = {**options}
    try:
        given.pop("connection_class", Connection)(**given)
    except TypeError:
        raise NotAnAddress("an option after the question mark is unknown") from None


def _host(text: str) -> Host:
    parts = urlsplit(f"//{text}")
    try:
        return parts.hostname or "localhost", parts.port or 6379
    except ValueError:
        raise NotAnAddress("a port is a number") from None
