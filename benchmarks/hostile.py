"""A well-behaved tenant during attacks: what others notice while a server is attacked.

Starts a server with a database and a scripted model, and measures for each attack first without and then with
it: the slowest `/healthz`, how long a well-behaved tenant's runs take to start, the memory of the
server's process, and the responses to the attack. Server, model, tenant and health check are separate
processes; all traffic is on loopback, limited in time and count. Real attackers would be on other machines,
so here they run at a lower priority and take no processor time from the server.

    .venv/bin/python -m benchmarks.hostile --attack brackets --seconds 20
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import resource
import statistics
import tempfile
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from benchmarks.hostile_attacks import ATTACKS, Arena
from benchmarks.hostile_tools import a_tool_server, graphs_with
from tests.security.server import Target, Used, Watched, a_target, an_obedient_model

OPEN_FILES = 1024
"""The usual limit of open files."""
QUIET_S = 10.0
MIB = 2**20
NICENESS = 10


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one period."""

    watched: Watched
    used: Used

    def start_ms(self, percent: int) -> float:
        """A percentile of the start times of the tenant's runs."""
        return percentile([1000 * seconds for seconds in self.used.started_s], percent)


def percentile(values: Sequence[float], percent: int) -> float:
    """A percentile; infinite without values."""
    if len(values) < 2:  # noqa: PLR2004
        return values[0] if values else float("inf")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


@asynccontextmanager
async def an_arena(directory: Path) -> AsyncIterator[Arena]:
    """A server for one attack, with everything the attack needs."""
    data = directory / "data"
    data.mkdir()
    async with (
        EmbeddedPostgres.start(directory / "postgres") as postgres,
        an_obedient_model() as model_url,
        a_tool_server() as tools,
    ):
        database = await Database.open(postgres.url)
        await database.migrate()
        await database.aclose()
        within = ("prlimit", f"--nofile={OPEN_FILES}:{OPEN_FILES}")
        settings = {
            "RUNTALLY_IDLE_PROCESSES": "2",
            "RUNTALLY_GRAPHS_DIR": str(graphs_with(directory, tools.url)),
        }
        async with a_target(data, postgres.url, model_url, within=within, **settings) as target:
            yield Arena(target, tools, await target.new_key("attacker"), await target.new_key("good"))


async def measured(target: Target, key: str, during: Coroutine[Any, Any, None]) -> Measured:
    """Measure while this is executed."""
    async with target.watched() as watched, target.used(key) as used:
        await during
    return Measured(watched, used)


async def attacked(name: str, seconds: float) -> None:
    """Execute one attack on a server of its own and print a line about it."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-", ignore_cleanup_errors=True) as directory:
        async with an_arena(Path(directory)) as arena:
            quiet = await measured(arena.target, arena.good_key, asyncio.sleep(QUIET_S))
            under = await measured(arena.target, arena.good_key, _bounded(arena, name, seconds))
            _print(name, quiet, under, arena)


async def _bounded(arena: Arena, name: str, seconds: float) -> None:
    os.nice(NICENESS)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ATTACKS[name](arena)


def _print(name: str, quiet: Measured, under: Measured, arena: Arena) -> None:
    usual, now = quiet.start_ms(50), under.start_ms(50)
    failed = sum(started is None for started, _, _ in under.used.outcomes)
    print(
        f"{name:18}{quiet.watched.worst_s * 1000:9.0f}{under.watched.worst_s * 1000:9.0f}"
        f"{usual:9.0f}{now:9.0f}{now / usual:7.1f}{quiet.start_ms(99):9.0f}{under.start_ms(99):9.0f}"
        f"{len(under.used.outcomes):6}{failed:7}{under.watched.peak_bytes / MIB:9.0f}  {arena.responses()}",
        flush=True,
    )


def main(names: Sequence[str], seconds: float) -> None:
    """Run and print."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    print(f"{'':18}{'healthz, worst ms':>18}{'start p50 ms':>18}{'ratio':>7}{'start p99 ms':>18}", end="")
    print(f"{'runs':>6}{'failed':>7}{'peak MiB':>9}  answers to the attack")
    print(f"{'':18}" + f"{'quiet':>9}{'attack':>9}{'quiet':>9}{'attack':>9}{'':7}{'quiet':>9}{'attack':>9}")
    for name in names:
        # Separate processes: a lowered priority cannot be raised again.
        process = multiprocessing.get_context("spawn").Process(target=_attack, args=(name, seconds))
        process.start()
        process.join()


def _attack(name: str, seconds: float) -> None:
    asyncio.run(attacked(name, seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="one of them (default: all)")
    parser.add_argument("--seconds", type=float, default=20, help="each lasts at most (default: %(default)s)")
    arguments = parser.parse_args()
    main(arguments.attack or list(ATTACKS), arguments.seconds)
