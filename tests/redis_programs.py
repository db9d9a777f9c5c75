"""Servers of Redis and Valkey as people run them: a cluster of three shards, a master with its Sentinels."""

import asyncio
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.patience import PATIENCE_S
from tests.programs import require

SLOTS = 16384
HOST = "127.0.0.1"
PASSWORD = "of-the-relay-01"  # noqa: S105 - for servers of tests
SERVICE = "relay"


SENTINEL = f"""
bind {HOST}
requirepass {PASSWORD}
sentinel sentinel-pass {PASSWORD}
sentinel monitor {SERVICE} {HOST} {{port}} 2
sentinel auth-pass {SERVICE} {PASSWORD}
sentinel down-after-milliseconds {SERVICE} 500
sentinel failover-timeout {SERVICE} 3000
"""


class Program:
    """A server in a directory of its own; stopped, frozen and started again by tests."""

    def __init__(self, directory: Path, *arguments: str, program: str = "redis-server") -> None:
        require(program)
        directory.mkdir(parents=True)
        self.port = free_port()
        self._directory = directory
        self._command = [program, *arguments, "--port", str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None

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

    @asynccontextmanager
    async def client(self, password: str | None = PASSWORD) -> AsyncIterator[Redis]:
        async with Redis(host=HOST, port=self.port, password=password, decode_responses=True) as client:
            yield client

    async def answers(self, password: str | None = PASSWORD) -> bool:
        """Whether it takes commands."""
        with suppress(RedisError):
            async with self.client(password) as client:
                return bool(await client.ping())
        return False


async def is_replica(program: Program) -> bool:
    """Whether it answers, and has what its master has."""
    if not await program.answers():
        return False
    async with program.client() as client:
        return (await client.info("replication")).get("master_link_status") == "up"


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not (await found if isinstance(found := true(), Awaitable) else found):
            await asyncio.sleep(0.02)


def free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def running(*programs: Program, password: str | None = PASSWORD) -> AsyncIterator[None]:
    """All of them answer."""
    try:
        for program in programs:
            program.start()
        for program in programs:
            await until(partial(program.answers, password))
        yield
    finally:
        for program in programs:
            program.stop()


class Cluster:
    """Nodes that serve the slots in equal ranges."""

    def __init__(self, nodes: Sequence[Program]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        """As `REDIS_URL`: the first nodes are named, the others are found."""
        hosts = ",".join(f"{HOST}:{node.port}" for node in self.nodes[:2])
        return f"redis://:{PASSWORD}@{hosts}/0"

    async def move(self, slot: int, *, to: Program) -> None:
        """Let another node serve a slot, with all that is in it."""
        [source] = [node for node in self.nodes if await _has_slot(node, slot)]
        async with source.client() as old, to.client() as new:
            ids = [await client.execute_command("CLUSTER MYID") for client in (old, new)]
            await new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[0])
            await old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[1])
            while keys := await old.execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
                await old.execute_command(
                    *("MIGRATE", HOST, to.port, "", 0, 5000, "AUTH", PASSWORD, "KEYS", *keys)
                )
            for client in (new, old):
                await client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[1])

    async def is_complete(self) -> bool:
        """Whether all nodes know that all slots are served."""
        for node in self.nodes:
            async with node.client() as client:
                info = await client.execute_command("CLUSTER INFO")
            if info["cluster_state"] != "ok" or int(info["cluster_known_nodes"]) != len(self.nodes):
                return False
        return True


async def _has_slot(node: Program, slot: int) -> bool:
    async with node.client() as client:
        slots = await client.execute_command("CLUSTER SLOTS")
    return any(first <= slot <= last and primary[1] == node.port for first, last, primary, *_ in slots)


@asynccontextmanager
async def a_cluster(
    directory: Path, *, shards: int = 3, replicas: int = 0, program: str = "redis-server"
) -> AsyncIterator[Cluster]:
    """So many shards, the first with so many replicas."""
    nodes = []
    for number in range(shards + replicas):
        own = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
        timing = ("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
        nodes.append(
            Program(
                directory / f"node-{number}",
                *("--bind", HOST, "--save", "", "--requirepass", PASSWORD, "--masterauth", PASSWORD, *own, *timing),
                *("--repl-diskless-sync-delay", "0"),
                program=program,
            )
        )
    cluster = Cluster(nodes)
    async with running(*nodes):
        async with nodes[0].client() as first:
            bus = (await first.config_get("cluster-port"))["cluster-port"]
            first_id = await first.execute_command("CLUSTER MYID")
        for number, node in enumerate(nodes):
            async with node.client() as client:
                if number < shards:
                    slots = number * SLOTS // shards, (number + 1) * SLOTS // shards - 1
                    await client.execute_command("CLUSTER ADDSLOTSRANGE", *slots)
                    await client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                if number:
                    await client.execute_command("CLUSTER MEET", HOST, nodes[0].port, bus)
        await until(cluster.is_complete)
        for replica in nodes[shards:]:
            async with replica.client() as client:
                await client.execute_command("CLUSTER REPLICATE", first_id)
            await until(partial(is_replica, replica))
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
            async with sentinel.client() as client:
                known = await client.sentinel_master(SERVICE)
            if (known["num-slaves"], known["num-other-sentinels"]) != (1, len(self.sentinels) - 1):
                return False
        return True


@asynccontextmanager
async def a_watched_master(directory: Path) -> AsyncIterator[Watched]:
    own = ("--bind", HOST, "--save", "", "--requirepass", PASSWORD, "--masterauth", PASSWORD)
    own += ("--repl-diskless-sync-delay", "0")
    master = Program(directory / "master", *own)
    replica = Program(directory / "replica", *own, "--replicaof", f"{HOST} {master.port}")
    sentinels = []
    for number in range(3):
        place = directory / f"sentinel-{number}"
        sentinels.append(Program(place, "sentinel.conf", program="redis-sentinel"))
        (place / "sentinel.conf").write_text(SENTINEL.format(port=master.port))
    watched = Watched(master, replica, sentinels)
    # Sentinels that find the replica when they start need not look again, ten seconds later.
    async with running(master, replica):
        await until(partial(is_replica, replica))
        async with running(*sentinels):
            await until(watched.is_ready)
            yield watched
