"""What can break in a fleet: each fault acts on running processes and services."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import asyncpg
import httpx
from redis.asyncio import Redis

from app.simulator.script import ApiRequest, text_of
from app.simulator.server import Simulator
from benchmarks.fleet_members import LEASE_S, Member, Services


@dataclass(slots=True)
class Findings:
    """Of all rounds."""

    faults: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    resumed: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Fleet:
    """What the faults act on."""

    services: Services
    simulator: Simulator
    all: list[Member]
    key: str
    rng: random.Random
    findings: Findings

    @property
    def apis(self) -> list[Member]:
        """The API servers."""
        return [each for each in self.all if each.role == "api"]

    @property
    def workers(self) -> list[Member]:
        """The workers."""
        return [each for each in self.all if each.role == "worker"]

    def client(self) -> httpx.AsyncClient:
        """A client that reaches any API server by its whole URL."""
        return httpx.AsyncClient(headers={"Authorization": f"Bearer {self.key}"}, timeout=30, trust_env=False)

    async def start(self) -> None:
        """Start whatever is not running."""
        await asyncio.gather(*(each.start() for each in self.all))


def run_of(request: ApiRequest) -> str:
    """The run that a request belongs to: each prompt has its id; the last one counts."""
    users = [text_of(each["content"]) for each in request.messages if each["role"] == "user"]
    named = [text for text in users if text.endswith("]")]
    return named[-1].rpartition("[")[2].removesuffix("]") if named else ""


Fault: TypeAlias = Callable[[Fleet], Awaitable[None]]


async def _kill_worker(fleet: Fleet) -> None:
    await fleet.rng.choice(fleet.workers).kill()


async def _kill_api(fleet: Fleet) -> None:
    await fleet.rng.choice(fleet.apis).kill()


async def _lose_worker(fleet: Fleet) -> None:
    await fleet.rng.choice(fleet.workers).lose()


async def _stop_worker(fleet: Fleet) -> None:
    await fleet.rng.choice(fleet.workers).stop()


async def _stop_api(fleet: Fleet) -> None:
    await fleet.rng.choice(fleet.apis).stop()


async def _freeze_worker(fleet: Fleet) -> None:
    """Until its runs are taken over; what it calls for them afterwards is wrong."""
    frozen = fleet.rng.choice(fleet.workers)
    frozen.send(signal.SIGSTOP)
    await asyncio.sleep(fleet.rng.choice([LEASE_S * 2.5, LEASE_S * 5]))
    before = len(fleet.simulator.requests)
    lost = await _runs_of_others(fleet)
    frozen.send(signal.SIGCONT)
    await asyncio.sleep(LEASE_S)
    for request in fleet.simulator.requests[before:]:
        run = run_of(request)
        if request.headers.get("x-api-key") == frozen.provider_key and run in lost:
            fleet.findings.wrong.append(f"{run}: a call of a worker that has lost it")


async def _empty_relay(fleet: Fleet) -> None:
    async with Redis.from_url(fleet.services.relay.connection_url) as relay:
        await relay.flushall()
        await _disconnect(relay)


async def _restart_relay(fleet: Fleet) -> None:
    relay = fleet.services.relay
    await asyncio.to_thread(relay.stop)
    await asyncio.sleep(fleet.rng.uniform(0.2, 4))
    await asyncio.to_thread(relay.start)


async def _fail_over_relay(fleet: Fleet) -> None:
    """A replica takes its place that lacks the latest events."""
    async with Redis.from_url(fleet.services.relay.connection_url) as relay:
        held = {name: await relay.dump(name) for name in await relay.keys("runtally:*")}
        await asyncio.sleep(fleet.rng.uniform(0.2, 1.5))
        await relay.flushall()
        for name, value in held.items():
            if value is not None:
                await relay.restore(name, 0, value, replace=True)
        await _disconnect(relay)


async def _disconnect(relay: Redis) -> None:
    for kind in ("normal", "pubsub"):
        await relay.client_kill_filter(_type=kind, skipme=True)


async def _freeze_postgres(fleet: Fleet) -> None:
    fleet.services.signal_postgres(signal.SIGSTOP)
    await asyncio.sleep(fleet.rng.choice([1.0, LEASE_S, LEASE_S * 3]))
    fleet.services.signal_postgres(signal.SIGCONT)


async def _restart_postgres(fleet: Fleet) -> None:
    await fleet.services.door.stop()
    await asyncio.sleep(fleet.rng.uniform(0.1, 2))
    await fleet.services.door.start()


async def _make_read_only(fleet: Fleet) -> None:
    for value in ("on", "off"):
        connection = await asyncpg.connect(fleet.services.door.url)
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()
        await asyncio.sleep(fleet.rng.uniform(0.5, 3))


async def _jump(fleet: Fleet) -> None:
    """What a jump of the database's clock by an hour does to the heartbeats."""
    connection = await asyncpg.connect(fleet.services.door.url)
    hours = fleet.rng.choice([-1, 1])
    await connection.execute("UPDATE workers SET seen_at = seen_at + make_interval(hours => $1)", hours)
    await connection.close()


async def _restart_temporal(fleet: Fleet) -> None:
    if (temporal := fleet.services.temporal) is not None:
        temporal.kill()
        await asyncio.sleep(fleet.rng.uniform(0.2, 4))
        temporal.start()


async def _freeze_temporal(fleet: Fleet) -> None:
    if (temporal := fleet.services.temporal) is not None:
        temporal.send(signal.SIGSTOP)
        await asyncio.sleep(fleet.rng.choice([1.0, LEASE_S, LEASE_S * 3]))
        temporal.send(signal.SIGCONT)


FAULTS: dict[str, Fault] = {
    "worker killed": _kill_worker,
    "api killed": _kill_api,
    "worker frozen": _freeze_worker,
    "worker lost with its disk": _lose_worker,
    "relay emptied": _empty_relay,
    "relay restarted": _restart_relay,
    "relay failed over": _fail_over_relay,
    "postgres frozen": _freeze_postgres,
    "postgres restarted": _restart_postgres,
    "postgres read-only": _make_read_only,
    "worker stopped": _stop_worker,
    "api stopped": _stop_api,
    "clock jumped": _jump,
}

TEMPORAL_FAULTS: dict[str, Fault] = {
    "temporal killed": _restart_temporal,
    "temporal frozen": _freeze_temporal,
    **{
        name: FAULTS[name]
        for name in (
            "worker killed",
            "worker frozen",
            "worker lost with its disk",
            "worker stopped",
            "api killed",
            "relay restarted",
            "postgres frozen",
            "postgres restarted",
        )
    },
}
"""With Temporal as the dispatcher."""


async def _runs_of_others(fleet: Fleet) -> set[str]:
    """The runs of which an attempt was taken over."""
    connection = await asyncpg.connect(fleet.services.door.url)
    rows = await connection.fetch("SELECT run_id FROM run_takeovers")
    await connection.close()
    return {row["run_id"] for row in rows}
