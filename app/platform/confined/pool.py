"""WorkerPool: worker processes, started on demand and killed when a request exceeds its time."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

from app.platform.concurrency.fair_semaphore import FairSemaphore
from app.platform.confined.worker import REPLY, REQUEST
from app.platform.logs.context import start_detached

_PROGRAM = Path(__file__).with_name("worker.py")
_MAX_REPLY_BYTES = 65_536
_WALL_TIME_FACTOR = 10
"""How much longer than its processor time a request may take, because the machine may be busy."""

_EXIT_S = 5.0
_TIMED_OUT = "takes too long to check"
_REPLY_TOO_LARGE = "has too many errors to report"


class WorkerEnded(Exception):
    """A worker ended or was killed before it sent a reply; the text is the reason."""


class _Worker:
    """One process, which handles one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "_Worker":
        """Start a process; raises `OSError`."""
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(_PROGRAM),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        )

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def exchange(self, request: bytes, within_s: float) -> list[Any]:
        """The reply; raises `WorkerEnded`."""
        reading, writing = self._process.stdout, self._process.stdin
        assert reading is not None  # noqa: S101 - pipes, as asked for
        assert writing is not None  # noqa: S101
        try:
            async with asyncio.timeout(within_s):
                writing.write(request)
                await writing.drain()
                (length,) = REPLY.unpack(await reading.readexactly(REPLY.size))
                if length > _MAX_REPLY_BYTES:
                    raise WorkerEnded(_REPLY_TOO_LARGE)
                reply: list[Any] = json.loads(await reading.readexactly(length))
                return reply
        except TimeoutError:
            raise WorkerEnded(_TIMED_OUT) from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise WorkerEnded(await self._exit_reason()) from error

    async def _exit_reason(self) -> str:
        # It closed its pipe, so it is exiting.
        try:
            async with asyncio.timeout(_EXIT_S):
                code = await self._process.wait()
        except TimeoutError:
            return "did not end"
        return _TIMED_OUT if code == -signal.SIGPROF else "takes too much memory to check"

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def wait_closed(self) -> None:
        await self._process.communicate()


class WorkerPool:
    """Starts up to `workers` processes and shares them between owners."""

    def __init__(self, *, workers: int, check_s: float) -> None:
        """`check_s` is the processor time of one request."""
        self._semaphore = FairSemaphore(workers)
        self._check_s = check_s
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def waiting(self, owner: str) -> int:
        return self._semaphore.waiting(owner)

    async def call(self, handler: Path, request: bytes, *, owner: str) -> list[Any]:
        """What the function `handle` of the file returns; raises `WorkerEnded`, `OSError` without processes.

        `owner` identifies whose request it is; owners take turns, so none blocks the others.
        """
        path = bytes(handler)
        header = REQUEST.pack(len(path), self._check_s, len(request))
        async with self._semaphore.slot(owner):
            worker = await self._idle_worker()
            try:
                reply = await worker.exchange(header + path + request, self._check_s * _WALL_TIME_FACTOR)
            except BaseException:
                # Also on cancellation: the next request would read this reply.
                self._end(worker)
                raise
            self._idle.append(worker)
            return reply

    async def aclose(self) -> None:
        """Kill all workers and wait until they have exited."""
        for worker in tuple(self._all):
            self._end(worker)
        while self._ending:
            await asyncio.wait(self._ending)

    async def _idle_worker(self) -> _Worker:
        while self._idle:
            if (worker := self._idle.pop()).alive:
                return worker
            self._end(worker)
        worker = await _Worker.start()
        self._all.add(worker)
        return worker

    def _end(self, worker: _Worker) -> None:
        if worker not in self._all:
            return
        self._all.discard(worker)
        worker.kill()
        ending = start_detached(worker.wait_closed())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
