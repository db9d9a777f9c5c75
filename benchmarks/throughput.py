"""Runs per second, and what each costs in CPU and memory: Runtally compared with the SDK, many at a time.

The scripted model is a process of its own; each round takes all variants in turn: the SDK's `query()`; for
each of the runs at a time a connected `ClaudeSDKClient` (its next turn); Runtally without conversations, on
a server that keeps no processes and on one that does; the next turns of as many conversations as run at a
time; the executor `messages`, also on a server with two processes; the official client's stream, without an
agent; and other people's servers (`benchmarks.peers`).

CPU is that of everything a variant needs except the model, and of what it starts for the next runs: SDK and
CLI, or server, CLI and PostgreSQL. The HTTP client that posts to a server is not counted. Memory is what a
variant uses at most with so many runs at a time, per run, with the processes that it keeps between them;
proportional shares, of shared pages. `benchmarks.live_runs` has more runs at a time than processes could.

    .venv/bin/python -m benchmarks.throughput --rounds 3 --at-once 4 16
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.first_event import COLD, CONNECTED, MESSAGES_ALONE, MESSAGES_TWO, PARKED, QUERY, READY, STREAM
from benchmarks.markdown import table
from benchmarks.peers import running_peers
from benchmarks.processes import ProcessTree, memory_mib
from benchmarks.scripted_model import ScriptedModel, scripted_model
from benchmarks.servers import UNLIMITED, running_processes, running_server
from benchmarks.variants import MESSAGES, Run, alone, connected, next_turn, queried, streamed

QUICK = 8
"""Variants without a process take so many times more runs in a round, for rounds of similar length."""


@dataclass(slots=True)
class Throughput:
    """A variant's rounds."""

    memory_mib: float
    """For each of the runs at a time."""
    rates: list[float] = field(default_factory=list)
    cpus_ms: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Runs per second; the median."""
        return statistics.median(self.rates)

    @property
    def cpu_ms(self) -> float:
        """For each run; the median."""
        return statistics.median(self.cpus_ms)


@dataclass(frozen=True, slots=True)
class _Variant:
    run: Run
    tree: ProcessTree
    """Does the work."""
    runs: int
    """In each round."""
    base_mib: float | None = None
    """Its memory without processes that are kept for runs; None if it keeps none."""

    async def measure_memory(self, at_once: int) -> Throughput:
        """Execute it a few times first, so that nothing is counted that happens once."""
        await rate(self.run, 2 * at_once, at_once=at_once)
        await self.tree.until_quiet()
        async with self.tree.peak_memory() as memory:
            await rate(self.run, 2 * at_once, at_once=at_once)
        base_mib = memory.before_mib if self.base_mib is None else self.base_mib
        return Throughput((memory.most_mib - base_mib) / at_once)

    async def measure(self, into: Throughput, at_once: int) -> None:
        """One round. Processes that are started for the next runs count."""
        await self.tree.until_quiet()
        used = self.tree.cpu_s()
        into.rates.append(await rate(self.run, self.runs, at_once=at_once))
        await self.tree.until_quiet()
        into.cpus_ms.append((self.tree.cpu_s() - used) / self.runs * 1000)


async def rate(run: Run, total: int, *, at_once: int) -> float:
    """Execute `total` runs, `at_once` at a time; returns runs per second."""
    left = iter(range(total))

    async def one_after_the_other(place: int) -> None:
        for _ in left:
            await run(place)

    began = time.perf_counter()
    await asyncio.gather(*(one_after_the_other(place) for place in range(at_once)))
    return total / (time.perf_counter() - began)


@asynccontextmanager
async def _variants(
    model: ScriptedModel, directory: Path, *, runs: int, at_once: int
) -> AsyncIterator[dict[str, _Variant]]:
    settings = {**UNLIMITED, "RUNTALLY_MAX_CONCURRENT_RUNS": str(at_once)}
    sdk_mib = memory_mib(psutil.Process())
    async with (
        running_server(model.url, directory / "cold", idle=0, **settings) as (cold, cold_server),
        # So that as many processes are ready as run at a time: at most half of the idle ones are.
        running_server(model.url, directory / "warm", idle=2 * at_once, **settings) as (warm, warm_server),
        running_server(model.url, directory / "chats", idle=at_once, **settings) as (chats, chats_server),
        running_processes(model.url, directory / "two", 2, settings) as (two, two_server),
        running_peers(model.url, directory / "peers") as peers,
        connected(model.url, directory, places=at_once) as connected_client,
        streamed(model.url) as stream,
    ):
        servers = tuple(map(ProcessTree, (cold_server, warm_server, chats_server, two_server)))
        apart = (model.process, *(peer.process for peer in peers.values()))
        sdk = ProcessTree(psutil.Process(), (*map(ProcessTree, apart), *servers))
        of_cold, of_warm, of_chats, of_two = servers
        await rate(alone(cold), 1, at_once=1)
        base_mib = of_cold.memory_mib()
        yield {
            QUERY: _Variant(queried(model.url, directory), sdk, runs),
            CONNECTED: _Variant(connected_client, sdk, runs * QUICK, sdk_mib),
            COLD: _Variant(alone(cold), of_cold, runs),
            READY: _Variant(alone(warm), of_warm, runs, base_mib),
            PARKED: _Variant(next_turn(chats), of_chats, runs, base_mib),
            MESSAGES_ALONE: _Variant(alone(cold, MESSAGES), of_cold, runs * QUICK),
            MESSAGES_TWO: _Variant(alone(two, MESSAGES), of_two, runs * QUICK),
            STREAM: _Variant(stream, sdk, runs * QUICK),
            **{
                name: _Variant(peer.run, ProcessTree(peer.process), runs * QUICK)
                for name, peer in peers.items()
            },
        }


async def measure(directory: Path, *, rounds: int, runs: int, at_once: int) -> dict[str, Throughput]:
    """Every variant, by name; each of `rounds` has so many runs of it, or more."""
    async with (
        scripted_model() as model,
        _variants(model, directory, runs=runs, at_once=at_once) as variants,
    ):
        measured = {name: await variant.measure_memory(at_once) for name, variant in variants.items()}
        for _ in range(rounds):
            await model.forget()
            for name, variant in variants.items():
                await variant.measure(measured[name], at_once)
    return measured


def report(measured: dict[str, Throughput]) -> str:
    """The medians, and their ratios."""
    query = measured[QUERY]
    header = ("", "runs/s", "/ `query()`", "CPU of a run, ms", "/ `query()`", "memory of a run, MiB")
    rows = [
        (
            name,
            f"{each.rate:.1f}",
            f"{each.rate / query.rate:.2f}",
            f"{each.cpu_ms:.1f}",
            f"{each.cpu_ms / query.cpu_ms:.2f}",
            f"{each.memory_mib:.1f}",
        )
        for name, each in measured.items()
    ]
    return table(header, rows)


async def main(*, rounds: int, runs: int, at_once: list[int]) -> None:
    """Run and print."""
    for number in at_once:
        with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
            measured = await measure(Path(name), rounds=rounds, runs=runs, at_once=number)
        print(f"{number} at a time on {os.cpu_count()} cores, {rounds} interleaved rounds; medians\n")
        print(report(measured), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="of every variant (default: %(default)s)")
    parser.add_argument(
        "--runs", type=int, default=32, help=f"in a round, or {QUICK} times as many (default: %(default)s)"
    )
    parser.add_argument("--at-once", type=int, nargs="+", default=[4, 16], help="(default: 4 16)")
    given = parser.parse_args()
    asyncio.run(main(rounds=given.rounds, runs=given.runs, at_once=given.at_once))
