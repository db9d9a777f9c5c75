"""ProcessSupervisor: starts the processes of `runtally serve --processes`, starts them again, and stops them.

They are a fleet on one machine (docs/operations/fleet.md). All accept connections from one listening socket,
which stays open when one of them is killed.
"""

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO

import structlog

from app.bootstrap.storage import embedded_database, require_data_directory
from app.cli.addresses import listen, listen_for_scrapes
from app.cli.processes.listener import accepted_file, withdraw
from app.cli.processes.options import MemberOptions
from app.errors import OperatorError
from app.platform.background import first_of
from app.platform.embedded.valkey import embedded_valkey
from app.platform.server.memory import default_ceiling
from app.platform.settings import Settings

log = structlog.get_logger(__name__)

_PROGRAM = "app.cli.processes.member"
_STARTS = 5
"""How often in succession a process may end before it serves."""

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_LAST_LINES_S = 1.0
"""How long lines of a process that has ended are waited for: what it has started may keep the pipe open."""


class ProcessesFailed(OperatorError):
    """A server process cannot be started; its own lines in the log have the reason."""


def next_pause_s(last_s: float, served_s: float | None) -> float:
    """The pause before a process that has ended is started again; `last_s` was the one before its last start.

    What ends soon after it began to serve would otherwise be started again without end.
    """
    has_lasted = served_s is not None and served_s >= _LONGEST_PAUSE_S
    return _FIRST_PAUSE_S if has_lasted else min(max(2 * last_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)


async def serve_processes(
    settings: Settings, environment: Mapping[str, str], *, count: int, host: str, port: int
) -> None:
    """Serve with so many processes until a signal arrives, even during startup.

    `environment` is that of the command.
    """
    loop, starting = asyncio.get_running_loop(), asyncio.current_task()
    if starting is not None:
        # Until the supervisor handles signals itself.
        loop.add_signal_handler(signal.SIGTERM, starting.cancel)
    try:
        with (
            listen(host, port) as api,
            listen_for_scrapes(settings, host) as scrapes,
            _private_directory() as directory,
            accepted_file(directory) as accepted,
        ):
            options = MemberOptions(
                name="",
                directory=directory,
                api=api.fileno(),
                scrapes=None if scrapes is None else scrapes.fileno(),
                accepted=accepted,
                is_terminal=sys.stderr.isatty(),
            )
            async with _shared(settings, Path(directory), count) as variables:
                # What this process can import, and nothing else of the directory it was started in.
                paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
                await ProcessSupervisor(options, {**environment, **paths, **variables}, count).run()
    except asyncio.CancelledError:
        log.info("server.stopped_before_start")


def _private_directory() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="runtally-")
    except OSError as error:
        raise ProcessesFailed(
            f"No directory for temporary files can be written ({error.strerror}): "
            "make space there, or name another one in TMPDIR."
        ) from error


@asynccontextmanager
async def _shared(settings: Settings, directory: Path, count: int) -> AsyncIterator[Mapping[str, str]]:
    """The variables with which a process uses the same database and relay as the others."""
    require_data_directory(settings)
    variables: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        if settings.database_url is None:
            variables["DATABASE_URL"] = await stack.enter_async_context(embedded_database(settings))
        if settings.redis_url is None:
            variables["REDIS_URL"] = await stack.enter_async_context(embedded_valkey(directory))
        if settings.max_memory_mb is None:
            # All of them together may use what one process may by default.
            variables["RUNTALLY_MAX_MEMORY_MB"] = str(max(128, default_ceiling() // count // 2**20))
        yield variables


@dataclass(slots=True)
class ProcessSupervisor:
    """Keeps so many processes running until a signal arrives."""

    options: MemberOptions
    environment: Mapping[str, str]
    """Of the processes."""
    count: int
    _running: list[asyncio.subprocess.Process] = field(default_factory=list, init=False)
    _serves: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """One of them has served."""
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _failure: ProcessesFailed | None = field(default=None, init=False)

    async def run(self) -> None:
        """Return when all have ended after a signal; raises `ProcessesFailed` if one cannot be started."""
        loop = asyncio.get_running_loop()
        for stopping in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(stopping, self._stop)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep("1"))
            # The first one alone: what prevents its start would prevent that of the others, too.
            await first_of(self._serves.wait(), self._stopping.wait())
            for number in range(2, self.count + 1):
                tasks.create_task(self._keep(str(number)))
        if self._failure is not None:
            raise self._failure

    def _stop(self) -> None:
        """Let all processes end as after a signal; a repeated one is repeated for them."""
        self._stopping.set()
        for process in self._running:
            with suppress(ProcessLookupError):
                process.terminate()

    async def _keep(self, name: str) -> None:
        failed, pause_s = 0, 0.0
        while not self._stopping.is_set():
            served_s, status = await self._run_one(name)
            if self._stopping.is_set():
                return
            failed = failed + 1 if served_s is None else 0
            if failed == (_STARTS if self._serves.is_set() else 1):
                self._failure = ProcessesFailed(
                    f"Server process {name} has ended with status {status} before it could serve"
                    f"{f', {failed} times' if failed > 1 else ''}; the log has the reason."
                )
                self._stop()
                return
            pause_s = next_pause_s(pause_s, served_s)
            log.error("process.ended", name=name, status=status, restarted_in_s=pause_s)
            await first_of(self._stopping.wait(), asyncio.sleep(pause_s))

    async def _run_one(self, name: str) -> tuple[float | None, int]:
        """Start a process and wait until it ends; returns for how long it has served, and its status."""
        ours, theirs = socket.socketpair()
        with theirs:
            process, lines = await self._start(name, theirs)
        self._running.append(process)
        if self._stopping.is_set():
            process.terminate()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            served = await first_of(reader.read(1), process.wait())
            if has_served := served is not None and served.result == MemberOptions.SERVES:
                log.info("process.serves", name=name, pid=process.pid)
                self._serves.set()
            since = time.monotonic()
            status = await process.wait()
        finally:
            self._running.remove(process)
            withdraw(self.options.accepted, int(name))
            writer.close()
        await asyncio.to_thread(lines.join, _LAST_LINES_S)
        return time.monotonic() - since if has_served else None, status

    async def _start(self, name: str, link: socket.socket) -> tuple[asyncio.subprocess.Process, Thread]:
        options = self.options.of(name)
        reading, writing = os.pipe()
        lines = Thread(target=_pass_on, args=(os.fdopen(reading, "rb"),), daemon=True)
        lines.start()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", _PROGRAM, options.to_json()),
                env=self.environment,
                stdin=link.fileno(),
                stderr=writing,
                pass_fds=options.descriptors,
                # Ctrl-C is for the supervisor, which stops the others in order.
                start_new_session=True,
            )
        finally:
            os.close(writing)
        return process, lines


def _pass_on(lines: IO[bytes]) -> None:
    """Write whole lines to our own standard error, until the process has ended."""
    with lines:
        for line in lines:
            # A full disk must not end a run.
            with suppress(OSError):
                sys.stderr.buffer.write(line if line.endswith(b"\n") else line + b"\n")
                sys.stderr.buffer.flush()
