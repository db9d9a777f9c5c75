"""Thousands of runs, and what they leave behind in a server.

A mix of runs of both executors: alone, with tools, turns of conversations, cancelled, left by their reader,
in conversations that are then deleted. There are more conversations than processes are kept, so that these
are parked, ended and resumed. After each part, when nothing happens any more and all conversations are
deleted, it counts the server's memory, descriptors, threads, tasks, gateway channels and instances of each
class of the app, its child processes, its connections to PostgreSQL.

The exit code is 1 if something has grown by more than `--slack`, or the memory by more than `--mib`; if a run
failed; if receipts and sums differ from what the model sent; if a process or the folder of a run outlives
the server.

    .venv/bin/python -m benchmarks.soak --runs 2000 --cli 0.15
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from app.auth.keys import mint_key
from app.platform.db import Database
from app.platform.embedded.ports import free_port
from app.platform.embedded.postgres import EmbeddedPostgres
from app.simulator.server import Simulator
from app.streams.memory import DELETED_RUNS_REMEMBERED
from benchmarks.books import differences
from benchmarks.markdown import table
from benchmarks.observed_server import ObservedServer, observed_server
from benchmarks.processes import MIB, ProcessTree
from benchmarks.servers import UNLIMITED, client, server_environment, until_ready
from benchmarks.soak_stories import Clients, model

IDLE = 4
"""CLI processes that the server keeps."""

PARTS = 4
"""The table has a row after each part of the runs: a leak grows steadily, a pool or cache does not."""

ENDED_S = 60.0
CHANNEL = "app.gateway.channel.Channel"
BOUNDED = {"app.ids.RunKey": DELETED_RUNS_REMEMBERED}
"""Classes whose instances are kept on purpose, and how many of them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be more than before."""

    mib: float
    count: int
    """Of anything else: pools that were not full before, caches with bounds."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What exists at one moment."""

    runs: int
    memory_mib: float
    counts: dict[str, int]
    classes: dict[str, int]

    def row(self) -> tuple[str, ...]:
        """A row of the table."""
        return f"{self.runs}", f"{self.memory_mib:.1f}", *(f"{count}" for count in self.counts.values())

    def growth(self, before: "Observation", limits: Limits) -> Iterator[str]:
        """What has grown beyond its limit."""
        if (mib := self.memory_mib - before.memory_mib) > limits.mib:
            yield f"memory has grown by {mib:.1f} MiB"
        now, then = {**self.counts, **self.classes}, {**before.counts, **before.classes}
        for name, count in now.items():
            if (more := count - then.get(name, 0)) > BOUNDED.get(name, 0) + limits.count:
                yield f"{name} has grown by {more}"


@dataclass(frozen=True, slots=True)
class Soak:
    """A server under observation."""

    server: ObservedServer
    database: asyncpg.Connection
    clients: Clients

    async def run(self, runs: int) -> None:
        """Execute so many, delete their conversations and wait until nothing happens any more."""
        await self.clients.run(runs)
        async with asyncio.timeout(ENDED_S):
            while await self.database.fetchval("SELECT count(*) FROM runs WHERE ended_at IS NULL"):
                await asyncio.sleep(0.2)
        await self.clients.delete_conversations()
        await ProcessTree(self.server.process).until_quiet()

    async def observe(self) -> Observation:
        """Count."""
        process, alive = self.server.process, await self.server.alive()
        connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'runtally'"
        counts = {
            "processes": len(process.children(recursive=True)),
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
            "connections to PostgreSQL": await self.database.fetchval(connections),
            "tasks": alive.tasks,
            "gateway channels": alive.objects[CHANNEL],
        }
        memory = process.memory_info().rss / MIB
        return Observation(self.clients.runs, memory, counts, dict(alive.objects))


@asynccontextmanager
async def soaked(directory: Path, *, seed: int, cli_share: float) -> AsyncIterator[tuple[Soak, Simulator]]:
    """A server with a database and a model of its own."""
    key, port = mint_key(), free_port()
    async with EmbeddedPostgres.start(directory / "postgres") as postgres, Simulator(model) as simulator:
        database = await Database.open(postgres.url)
        await database.migrate()
        await database.aclose()
        environment = server_environment(
            directory / "data",
            simulator.url,
            key,
            DATABASE_URL=postgres.url,
            RUNTALLY_IDLE_PROCESSES=str(IDLE),
            **UNLIMITED,
        )
        connection = await asyncpg.connect(postgres.url)
        clients = Clients(f"http://127.0.0.1:{port}", key, random.Random(seed), cli_share)  # noqa: S311
        try:
            async with observed_server(environment, port=port, log=directory / "log") as server:
                async with client(clients.url, key) as http:
                    await until_ready(http)
                yield Soak(server, connection, clients), simulator
        finally:
            await connection.close()


async def main(*, runs: int, warm_up: int, cli_share: float, seed: int, limits: Limits) -> list[str]:
    """Run and print; returns what is wrong."""
    with tempfile.TemporaryDirectory(prefix="runtally-soak-") as name:
        directory = Path(name)
        # PostgreSQL may run as another user.
        os.chmod(directory, 0o755)  # noqa: PTH101, S103
        async with soaked(directory, seed=seed, cli_share=cli_share) as (soak, simulator):
            await soak.run(warm_up)
            seen = [await soak.observe()]
            for _ in range(PARTS):
                await soak.run(runs // PARTS)
                seen.append(await soak.observe())
            family = list(ProcessTree(soak.server.process))
            wrong = [*soak.clients.failures, *await differences(soak.database, simulator.sent)]
        wrong += [f"{process} has outlived the server" for process in family if process.is_running()]
        wrong += [f"{path.name} is left behind" for path in (directory / "data" / "runs").glob("server-*")]
    print(table(("runs", "memory, MiB", *seen[0].counts), [each.row() for each in seen]))
    print(f"{len(simulator.sent)} messages; how runs ended: {dict(soak.clients.ends)}")
    return [*seen[-1].growth(seen[0], limits), *wrong]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000, help="(default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=200, help="runs before (default: %(default)s)")
    parser.add_argument("--cli", type=float, default=0.15, help="share with the CLI (default: %(default)s)")
    parser.add_argument("--mib", type=float, default=32, help="growth of memory (default: %(default)s)")
    parser.add_argument("--slack", type=int, default=16, help="growth of the rest (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6))
    given = parser.parse_args()
    started = time.monotonic()
    problems = asyncio.run(
        main(
            runs=given.runs,
            warm_up=given.warm_up,
            cli_share=given.cli,
            seed=given.seed,
            limits=Limits(given.mib, given.slack),
        )
    )
    print(f"seed {given.seed}, {time.monotonic() - started:.0f} s, {len(problems)} problems")
    print(*problems, sep="\n")
    sys.exit(1 if problems else 0)
