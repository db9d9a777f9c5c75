"""Time to the first text and to the end of an answer: Runtally compared with the SDK and the official client.

All variants use the same scripted model on this machine, one after the other in each round, so that other
load affects all alike. The SDK: `query()`, also as the next turn of a session, and the next turn of a client
that stays connected. The official client: a stream without any agent. Runtally: a run without a conversation,
which starts a process or takes a ready one; the next turn of a conversation, which resumes it from the store
or is served by its parked process; both with the executor `messages`, also with two server processes. Other
people's servers: `benchmarks.peers`. Between two of them the servers may start processes ahead of time, as
while a real provider thinks. Prints medians and their ratios to `query()` and to the official client.

    .venv/bin/python -m benchmarks.first_event --rounds 20
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.markdown import table
from benchmarks.peers import running_peers
from benchmarks.processes import ProcessTree
from benchmarks.scripted_model import scripted_model
from benchmarks.servers import running_processes, running_server
from benchmarks.variants import MESSAGES, Run, alone, connected, next_turn, queried, resumed, streamed

QUERY, STREAM = "`query()`", "`anthropic` stream"
QUERY_RESUMED = "`query()`, resumed"
CONNECTED = "connected client"
COLD, READY = "alone, cold", "alone"
RESUMED, PARKED = "next turn, resumed", "next turn, parked"
MESSAGES_ALONE, MESSAGES_TURN = "`messages`", "`messages`, next turn"
MESSAGES_TWO = "`messages`, `--processes 2`"

IDLE = 4
"""The default of `RUNTALLY_IDLE_PROCESSES`."""


@dataclass(slots=True)
class Latency:
    """Milliseconds from the request to the first text and to the end, one entry per round."""

    first_ms: list[float] = field(default_factory=list)
    end_ms: list[float] = field(default_factory=list)

    @property
    def first(self) -> float:
        """The median."""
        return statistics.median(self.first_ms)

    @property
    def end(self) -> float:
        """The median."""
        return statistics.median(self.end_ms)

    async def measure(self, run: Run) -> None:
        """Record one answer."""
        start = time.perf_counter()
        times = await run(0)
        self.first_ms.append((times.first - start) * 1000)
        self.end_ms.append((times.end - start) * 1000)


@asynccontextmanager
async def _variants(model_url: str, directory: Path) -> AsyncIterator[tuple[dict[str, Run], ProcessTree]]:
    """By name; and the processes of the server that starts others ahead of time."""
    async with (
        running_server(model_url, directory, idle=0) as (cold, _),
        running_server(model_url, directory, idle=IDLE) as (warm, server),
        running_processes(model_url, directory / "two", 2, {}) as (two, _),
        running_peers(model_url, directory / "peers") as peers,
        connected(model_url, directory, places=1) as connected_client,
        streamed(model_url) as stream,
    ):
        variants = {
            QUERY: queried(model_url, directory),
            QUERY_RESUMED: resumed(model_url, directory / "resumed"),
            CONNECTED: connected_client,
            COLD: alone(cold),
            READY: alone(warm),
            RESUMED: next_turn(cold),
            PARKED: next_turn(warm),
            STREAM: stream,
            MESSAGES_ALONE: alone(cold, MESSAGES),
            MESSAGES_TURN: next_turn(cold, MESSAGES),
            MESSAGES_TWO: alone(two, MESSAGES),
            **{name: peer.run for name, peer in peers.items()},
        }
        yield variants, ProcessTree(server)


async def measure(directory: Path, rounds: int) -> dict[str, Latency]:
    """Every variant, by name."""
    async with scripted_model() as model, _variants(model.url, directory) as (variants, server):
        for run in variants.values():
            await run(0)
        measured = {name: Latency() for name in variants}
        for _ in range(rounds):
            for name, run in variants.items():
                # What the variant before made it start would slow this one down.
                await server.until_quiet()
                await measured[name].measure(run)
    return measured


def report(measured: dict[str, Latency]) -> str:
    """The medians, and their ratios."""
    query, stream = measured[QUERY], measured[STREAM]
    header = ("", "first text, ms", "/ `query()`", "/ stream", "end, ms", "/ `query()`")
    rows = [
        (
            name,
            f"{each.first:.1f}",
            f"{each.first / query.first:.2f}",
            f"{each.first / stream.first:.1f}",
            f"{each.end:.1f}",
            f"{each.end / query.end:.2f}",
        )
        for name, each in measured.items()
    ]
    return table(header, rows)


async def main(rounds: int) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        measured = await measure(Path(name), rounds)
    print(f"{rounds} interleaved rounds; medians\n")
    print(report(measured))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    asyncio.run(main(parser.parse_args().rounds))
