"""`runtally serve` in a process of its own that also counts what is alive in it."""

import asyncio
import gc
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from app.bootstrap.roles import Role
from app.cli.logs import configure_logs
from app.cli.serve import serve
from app.platform.settings import Settings, withdraw_secrets

_STOPPED_S = 60.0


@dataclass(frozen=True, slots=True)
class Alive:
    """What a server keeps in memory."""

    tasks: int
    objects: Counter[str]
    """Instances of each class of the app."""


@dataclass(frozen=True, slots=True)
class ObservedServer:
    """A running server."""

    process: psutil.Process
    _commands: Connection

    async def alive(self) -> Alive:
        """What it keeps now."""
        self._commands.send(None)
        alive: Alive = await asyncio.to_thread(self._commands.recv)
        return alive


@asynccontextmanager
async def observed_server(
    environment: Mapping[str, str], *, port: int, log: Path
) -> AsyncIterator[ObservedServer]:
    """Start it with exactly this environment; it is told to stop at the end, and waited for."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=_run, args=(dict(environment), port, log, its))
    process.start()
    try:
        yield ObservedServer(psutil.Process(process.pid), ours)
    finally:
        process.terminate()
        await asyncio.to_thread(process.join, _STOPPED_S)


def _run(environment: dict[str, str], port: int, log: Path, commands: Connection) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), sys.stderr.fileno())
    configure_logs()
    settings = Settings.load()
    withdraw_secrets(os.environ)
    asyncio.run(_serve(settings, port, commands))


async def _serve(settings: Settings, port: int, commands: Connection) -> None:
    def answer() -> None:
        commands.recv()
        commands.send(_alive())

    asyncio.get_running_loop().add_reader(commands.fileno(), answer)
    await serve(settings, role=Role.SERVE, host="127.0.0.1", port=port)


def _alive() -> Alive:
    gc.collect()
    # Without the objects from before the server's start, which it has exempted from garbage collection.
    classes = (type(each) for each in gc.get_objects())
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in classes if cls.__module__.startswith("app."))
    return Alive(len(asyncio.all_tasks()), Counter(names))
