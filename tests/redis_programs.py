"""Redis and Valkey as people run them: one server, a cluster of three shards, a master with its Sentinels."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.platform.embedded.ports import free_port
from tests.patience import PATIENCE_S
from tests.programs import require

SLOTS = 16384
HOST = "127.0.0.1"
PASSWORD = "of-the-relay-01"
SERVICE = "relay"
_SERVER = (
    *("--bind", HOST, "--save", "", "--requirepass", PASSWORD),
    *("--masterauth", PASSWORD, "--repl-diskless-sync-delay", "0"),
)
_NODE = (
    *("--cluster-enabled", "yes"),
    *("--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"),
)
_SENTINEL = f"""
bind {HOST}
requirepass {PASSWORD}
sentinel sentinel-pass {PASSWORD}
sentinel monitor {SERVICE} {HOST} {{port}} 2
sentinel auth-pass {SERVICE} {PASSWORD}
sentinel down-after-milliseconds {SERVICE} 2000
sentinel failover-timeout {SERVICE} 6000
"""


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not (await found if isinstance(found := true(), Awaitable) else found):
            await asyncio.sleep(0.02)


class Program:
    """A server in a directory of its own; stopped, frozen and started again by tests."""

    def __init__(self, directory: Path, *arguments: str, program: str = "redis-server") -> None:
        require(program)
        directory.mkdir(parents=True)
        self.port = free_port()
        self._directory = directory
        self._command = [program, *arguments, "--port", str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@{HOST}:{self.port}"

    def start(self) -> None:
        """It listens a moment later."""
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._directory, stdout=log, stderr=subprocess.STDOUT
            )

    def stop(self) -> None:
        """As a machine that is switched off."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It does nothing meanwhile, and its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    async def call(self, *command: str | int) -> Any:
        async with Redis.from_url(self.url, decode_responses=True) as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def answers(self) -> bool:
        """Whether it takes commands."""
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "log").read_text()
        with suppress(RedisError):
            return bool(await self.call("PING"))
        return False

    async def follows(self) -> bool:
        """Whether it is a replica that has what its master has."""
        with suppress(RedisError):
            found = await self.call("INFO", "replication")
            return bool(found.get("master_link_status") == "up")
        return False


def a_server(directory: Path, *arguments: str) -> Program:
    return Program(directory, *_SERVER, *arguments)


@asynccontextmanager
async def running(*programs: Program) -> AsyncIterator[None]:
    """All of them answer."""
    try:
        for program in programs:
            program.start()
        for program in programs:
            await until(program.answers)
        yield
    finally:
        for program in programs:
            program.stop()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that serve the slots in equal ranges."""

    nodes: Sequence[Program]

    @property
    def url(self) -> str:
        """As `REDIS_URL`: two nodes are named, the others are found."""
        hosts = ",".join(f"{HOST}:{node.port}" for node in self.nodes[:2])
        return f"redis://:{PASSWORD}@{hosts}/0"

    async def move(self, slot: int, *, to: Program) -> None:
        """Let another node serve a slot, with all that is in it."""
        [source] = [node for node in self.nodes if await _serves(node, slot)]
        old, new = await source.call("CLUSTER", "MYID"), await to.call("CLUSTER", "MYID")
        await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", old)
        await source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", new)
        while keys := await source.call("CLUSTER", "GETKEYSINSLOT", slot, 100):
            await source.call("MIGRATE", HOST, to.port, "", 0, 5000, "AUTH", PASSWORD, "KEYS", *keys)
        for node in (to, source):
            await node.call("CLUSTER", "SETSLOT", slot, "NODE", new)

    async def is_complete(self) -> bool:
        """Whether all nodes know each other, and who serves each slot.

        Their state does not say so: it is `ok` without full coverage.
        """
        states = [await node.call("CLUSTER", "INFO") for node in self.nodes]
        expected = {
            "cluster_state:ok",
            f"cluster_known_nodes:{len(self.nodes)}",
            f"cluster_slots_assigned:{SLOTS}",
        }
        return all(expected <= set(state.splitlines()) for state in states)


async def _serves(node: Program, slot: int) -> bool:
    slots = await node.call("CLUSTER", "SLOTS")
    return any(first <= slot <= last and primary[1] == node.port for first, last, primary, *_ in slots)


@asynccontextmanager
async def a_cluster(
    directory: Path, *, shards: int = 3, replicas: int = 0, program: str = "redis-server"
) -> AsyncIterator[Cluster]:
    """So many shards, the first with so many replicas."""
    nodes, bus = [], free_port()
    for number in range(shards + replicas):
        own = ("--cluster-port", str(bus if number == 0 else free_port()))
        nodes.append(Program(directory / f"node-{number}", *_SERVER, *_NODE, *own, program=program))
    cluster = Cluster(nodes)
    async with running(*nodes):
        for number, node in enumerate(nodes[:shards]):
            first, end = number * SLOTS // shards, (number + 1) * SLOTS // shards
            await node.call("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            await node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            await node.call("CLUSTER", "MEET", HOST, nodes[0].port, bus)
        await until(cluster.is_complete)
        for replica in nodes[shards:]:
            await replica.call("CLUSTER", "REPLICATE", await nodes[0].call("CLUSTER", "MYID"))
            await until(replica.follows)
        yield cluster


@dataclass(frozen=True, slots=True)
class Watched:
    """A master, its replica, and the Sentinels that watch them."""

    master: Program
    replica: Program
    sentinels: Sequence[Program]

    @property
    def url(self) -> str:
        """As `REDIS_URL`."""
        hosts = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://:{PASSWORD}@{hosts}/{SERVICE}/0?sentinel_password={PASSWORD}"

    async def is_ready(self) -> bool:
        """Whether all know each other."""
        for sentinel in self.sentinels:
            known = await sentinel.call("SENTINEL", "MASTER", SERVICE)
            if (known["num-slaves"], known["num-other-sentinels"]) != ("1", str(len(self.sentinels) - 1)):
                return False
        return True


@asynccontextmanager
async def a_watched_master(directory: Path) -> AsyncIterator[Watched]:
    master = a_server(directory / "master")
    replica = a_server(directory / "replica", "--replicaof", f"{HOST} {master.port}")
    places = [directory / f"sentinel-{number}" for number in range(3)]
    sentinels = [Program(place, "sentinel.conf", program="redis-sentinel") for place in places]
    for place in places:
        (place / "sentinel.conf").write_text(_SENTINEL.format(port=master.port))
    watched = Watched(master, replica, sentinels)
    # Sentinels that find the replica when they start need not look again, ten seconds later.
    async with running(master, replica):
        await until(replica.follows)
        async with running(*sentinels):
            await until(watched.is_ready)
            yield watched
