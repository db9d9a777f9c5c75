"""Nodes: which server a connection to the relay leads to."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count, takewhile
from typing import Any, TypeAlias

from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import ClusterDownError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

from app.platform.concurrency.shared_result import SharedResult
from app.streams.relay.address import Host, RelayAddress, WrongServer

PARTS = 12
"""Of what a cluster carries: as many for each of 1, 2, 3, 4, 6 or 12 shards."""

_ANSWER_S = 2.0
"""After that another server is asked."""
_MAX_AGE_S = 0.25
"""Connections that are made together share an answer."""

Locate: TypeAlias = Callable[[], Awaitable[Host]]


def part_of(name: str, parts: int) -> int:
    """Which of so many parts a name belongs to, in every process."""
    slot: int = key_slot(name.encode())
    return slot * parts // REDIS_CLUSTER_HASH_SLOTS


def hash_tags() -> list[str]:
    """A hash tag for each part, whose slot is in the part's range: each shard serves a range of slots."""
    found: dict[int, str] = {}
    for number in takewhile(lambda _: len(found) < PARTS, count()):
        found.setdefault(part_of(str(number), PARTS), str(number))
    return [found[part] for part in range(PARTS)]


class Nodes:
    """Finds the server for each new connection; asks another one each time, as an answer may be old."""

    def __init__(self, address: RelayAddress) -> None:
        self._address = address
        self._hosts = deque(address.hosts)
        self._slots = SharedResult(self._find_slots, max_age_s=_MAX_AGE_S)

    async def is_cluster(self) -> bool:
        """Whether the relay is a cluster; raises `WrongServer` for a server that cannot be a relay."""
        address = self._address
        if address.service is not None or not address.hosts:
            return False
        _, answer = await self._ask("HELLO")
        said = dict(zip(answer[::2], answer[1::2], strict=True))
        is_cluster = bool(said[b"mode"] == b"cluster")
        if said[b"mode"] == b"sentinel":
            raise WrongServer("it is a Sentinel; write redis+sentinel://host:port/SERVICE")
        if is_cluster and address.options.get("db"):
            raise WrongServer("a cluster has only database 0; remove the number")
        if not is_cluster and len(address.hosts) > 1:
            raise WrongServer("several hosts are named and it is no cluster; name one, or Sentinels")
        if not is_cluster and said[b"role"] != b"master":
            raise WrongServer("it is a replica; name the master, or Sentinels")
        return is_cluster

    def options(self, tag: str) -> dict[str, Any]:
        """Options of connections to the relay; in a cluster to the node that serves this hash tag's slot."""
        locate: Locate
        if tag:
            locate = partial(self._node_of, key_slot(tag.encode()))
        elif self._address.service is not None:
            locate = self._master
        else:
            return self._options(*self._address.hosts)
        options = self._options()
        is_tls = options.get("connection_class") is SSLConnection
        return {**options, "connection_class": _LocatedTls if is_tls else _Located, "locate": locate}

    def _options(self, host: Host | None = None) -> dict[str, Any]:
        # `RelayConnection` limits each command. The client's own limits make a task for each, and lose
        # cancellations (Python 3.11's `wait_for`).
        own = {"socket_timeout": None, "socket_connect_timeout": None, "protocol": 2}
        place = {} if host is None else {"host": host[0], "port": host[1]}
        return {**self._address.options, **place, **own, "retry": Retry(NoBackoff(), 0)}

    async def _master(self) -> Host:
        _, answer = await self._ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)
        if answer is None:
            raise WrongServer("the Sentinels do not know the service; correct its name")
        host, port = answer
        return host.decode(), int(port)

    async def _node_of(self, slot: int) -> Host:
        for first, last, node in await self._slots.get():
            if first <= slot <= last:
                return node
        raise ClusterDownError("")

    async def _find_slots(self) -> list[tuple[int, int, Host]]:
        asked, answer = await self._ask("CLUSTER", "SLOTS")
        slots = [(first, last, [_host(node, asked) for node in nodes]) for first, last, *nodes in answer]
        known = [*self._address.hosts, *(host for _, _, hosts in slots for host in hosts)]
        # Those that are known go on in their order: the next one is asked next.
        self._hosts = deque(dict.fromkeys([*(host for host in self._hosts if host in known), *known]))
        return [(first, last, hosts[0]) for first, last, hosts in slots]

    async def _ask(self, *command: str | None) -> tuple[Host, Any]:
        """The first answer, and whose it is."""
        failure: Exception = RedisConnectionError()
        for host in list(self._hosts):
            self._hosts.rotate(-1)
            options = self._options(host)
            if self._address.service is not None:
                options |= {"db": 0, "username": None, "password": None, **self._address.sentinel_login}
            try:
                return host, await _answer(options, *command)
            except (RedisError, OSError) as error:
                failure = error
        raise failure


async def _answer(options: dict[str, Any], *command: str | None) -> Any:
    """The answer, over a connection that is closed whenever this is cancelled; those of pools may not be."""
    connection: Connection = options.pop("connection_class", Connection)(**options)
    try:
        async with asyncio.timeout(_ANSWER_S):
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command(*command)
            return await connection.read_response()
    finally:
        await connection.disconnect(nowait=True)


class _Located(Connection):
    """Finds its server anew each time it connects."""

    def __init__(self, *, locate: Locate, **options: Any) -> None:
        super().__init__(**options)
        self._locate = locate

    async def _connect(self) -> None:
        self.host, self.port = await self._locate()
        await super()._connect()  # type: ignore[no-untyped-call]


class _LocatedTls(_Located, SSLConnection):
    """The same with TLS."""


def _host(node: list[Any], asked: Host) -> Host:
    """A node may not know its own name: then it is the one that was asked."""
    name, port, *_ = node
    return (name.decode() if name and name != b"?" else asked[0]), port
