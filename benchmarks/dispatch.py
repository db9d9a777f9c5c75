"""How long a run waits between its acceptance and its start, and how runs spread over workers.

One process accepts runs and has no place for any; each worker is a process of its own with a scripted
executor. All share one PostgreSQL. Times are those of `RunService.start` in the accepting process and of the
executor in the worker, on one machine's clock. Prints numbers and goals; timing is never a test.

    .venv/bin/python -m benchmarks.dispatch
    .venv/bin/python -m benchmarks.dispatch --temporal    # beside it, the same with Temporal's dev server
    .venv/bin/python -m benchmarks.dispatch --workers 4 --places 250 --runs 1000 --rate 150
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import structlog
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.requests.run_request import GraphRunRequest
from benchmarks.goals import Goal
from benchmarks.markdown import table
from tests.contracts.temporal import Temporal, TemporalServer, a_temporal_server
from tests.factories import an_account
from tests.integration.run_service import Core, a_core, a_request, caller_of
from tests.scripted import Action, WaitFor, WriteMessage

HEARTBEAT_S = 1.0
WARM_UP = 20
_AT_ONCE = 6
GREEDY = 2000
"""How many runs of one account wait before the one of another account is posted."""


@dataclass(frozen=True, slots=True)
class Started:
    """When a worker's executor got a run, by the prompt of its request."""

    prompt: str
    worker: int
    at: float


class Fleet:
    """Workers in processes of their own."""

    def __init__(
        self, url: str, directory: Path, *, workers: int, places: int, temporal: Temporal | None
    ) -> None:
        """`places`: of each worker."""
        self._temporal = temporal
        self._url = url
        self._directory = directory
        self._places = places
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._workers = workers

    def start(self) -> None:
        """Start every worker, and wait until each takes runs."""
        context = multiprocessing.get_context("spawn")
        for number in range(self._workers):
            here, there = context.Pipe()
            directory = str(self._directory / str(number))
            arguments = (there, number, self._url, directory, self._places, self._temporal)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def started(self) -> list[Started]:
        """The runs that were started since the last call."""
        found: list[Started] = []
        for pipe in self._pipes:
            pipe.send("report")
            found += pipe.recv()
        return found

    def stop(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.join()


def _work(
    pipe: Connection, number: int, url: str, directory: str, places: int, temporal: Temporal | None
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    asyncio.run(_execute(pipe, number, url, directory, places=places, temporal=temporal))


async def _execute(
    pipe: Connection, number: int, url: str, directory: str, *, places: int, temporal: Temporal | None
) -> None:
    started: list[Started] = []

    def script(request: GraphRunRequest) -> list[Action]:
        prompt = request.messages[-1].text
        started.append(Started(prompt, number, time.time()))
        wait = [WaitFor(asyncio.Event())] if prompt.startswith("long") else []
        return [*wait, WriteMessage("Good morning.")]

    database = await Database.open(url)
    where = Path(directory)
    async with a_core(database, where, script, places=places, queued=10**6, temporal=temporal) as core:
        beating = asyncio.create_task(_beat(core))
        pipe.send("ready")
        with suppress(EOFError):
            while True:
                await asyncio.to_thread(pipe.recv)
                pipe.send(started[:])
                started.clear()
        beating.cancel()


async def _beat(core: Core) -> None:
    while True:
        await core.heartbeat.send()
        await asyncio.sleep(HEARTBEAT_S)


async def _post(core: Core, key: KeyRecord, prompts: Sequence[str], *, rate: float) -> dict[str, float]:
    """Post runs at a rate; returns when each was accepted."""
    accepted: dict[str, float] = {}
    began = time.perf_counter()

    connections = asyncio.Semaphore(_AT_ONCE)

    async def post(prompt: str) -> None:
        async with connections:
            await core.service.start(caller_of(key), a_request(prompt=prompt), request_id=None)
            accepted[prompt] = time.time()

    posting: list[asyncio.Task[None]] = []
    for number, prompt in enumerate(prompts):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        posting.append(asyncio.create_task(post(prompt)))
    await asyncio.gather(*posting)
    return accepted


async def _all_started(fleet: Fleet, count: int) -> list[Started]:
    found: list[Started] = []
    async with asyncio.timeout(120):
        while len(found) < count:
            await asyncio.sleep(0.1)
            found += await asyncio.to_thread(fleet.started)
    return found


def _quantiles(ms: list[float]) -> tuple[float, float]:
    ordered = sorted(ms)
    return ordered[len(ordered) // 2], ordered[int(0.99 * (len(ordered) - 1))]


async def measure(options: argparse.Namespace, url: str, directory: Path) -> None:
    """Measure and print."""
    fleet = Fleet(url, directory, workers=options.workers, places=options.places, temporal=None)
    await asyncio.to_thread(fleet.start)
    database = await Database.open(url)
    try:
        async with a_core(database, directory / "api", places=0, queued=10**6) as core:
            key, other = [await an_account(database, name) for name in ("acme", "other")]
            await _post(core, key, [f"warm {number}" for number in range(WARM_UP)], rate=options.rate)
            await _all_started(fleet, WARM_UP)

            short = [f"short {number}" for number in range(options.runs)]
            accepted = await _post(core, key, short, rate=options.rate)
            found = await _all_started(fleet, options.runs)
            waits = [(each.at - accepted[each.prompt]) * 1000 for each in found]
            p50, p99 = _quantiles(waits)

            long = [f"long {number}" for number in range(options.places * options.workers // 2)]
            await _post(core, key, long, rate=options.rate)
            spread = Counter(each.worker for each in await _all_started(fleet, len(long)))
            mean = len(long) / options.workers
            off = max(abs(spread[number] - mean) for number in range(options.workers)) / mean * 100

            greedy = [f"long g{number}" for number in range(GREEDY)]
            await _post(core, key, greedy, rate=10**6)
            limit = options.places * options.workers * 3 // 4
            active = await _active(database, key)
            one = await _post(core, other, ["one"], rate=1)
            rest = await _all_started(fleet, limit - len(long) + 1)
            (first,) = [each for each in rest if each.prompt == "one"]
            behind = (first.at - one["one"]) * 1000
    finally:
        await asyncio.to_thread(fleet.stop)
        await database.aclose()
    goals = [
        Goal("accepted to started, p50, ms", p50, 3),
        Goal("accepted to started, p99, ms", p99, 15),
        Goal("a worker's share differs from the mean by, %", off, 10),
        Goal("active runs of the greedy account", active, limit),
        Goal("one run behind many, ms", behind, 50),
    ]
    print(table(("measured", "value", "goal", "met"), [goal.row() for goal in goals]))


async def _active(database: Database, key: KeyRecord) -> int:
    async with database.read() as reader:
        row = await reader.execute(text("SELECT active_runs(:account)"), {"account": key.account_id})
        return int(row.scalar_one())


async def measure_temporal(options: argparse.Namespace, url: str, directory: Path) -> None:
    """Measure how long the start of a run takes with Temporal, and print; there is no goal."""
    with a_temporal_server() as server:
        await server.connect()
        temporal = Temporal(TemporalServer(server.port))
        fleet = Fleet(url, directory, workers=options.workers, places=options.places, temporal=temporal)
        await asyncio.to_thread(fleet.start)
        database = await Database.open(url)
        try:
            async with a_core(database, directory / "api", places=0, queued=10**6, temporal=temporal) as core:
                key = await an_account(database, "temporal")
                await _post(core, key, [f"warm {number}" for number in range(WARM_UP)], rate=options.rate)
                await _all_started(fleet, WARM_UP)
                for rate in (10, options.rate):
                    prompts = [f"short {rate} {number}" for number in range(rate * 5)]
                    accepted = await _post(core, key, prompts, rate=rate)
                    found = await _all_started(fleet, len(prompts))
                    p50, p99 = _quantiles([(each.at - accepted[each.prompt]) * 1000 for each in found])
                    print(f"Temporal, {rate} runs/s: accepted to started p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        finally:
            await asyncio.to_thread(fleet.stop)
            await database.aclose()


async def _measured(options: argparse.Namespace, directory: Path) -> None:
    for name, measured in (("postgres", measure), ("temporal", measure_temporal)):
        if name == "temporal" and not options.temporal:
            continue
        async with EmbeddedPostgres.start(directory / name) as postgres:
            database = await Database.open(postgres.url)
            await database.migrate()
            await database.aclose()
            await measured(options, postgres.url, directory / f"of {name}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("workers", 4), ("places", 250), ("runs", 1000), ("rate", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--temporal", action="store_true", help="also measure with Temporal")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_measured(parser.parse_args(), Path(directory)))


if __name__ == "__main__":
    main()
