"""The worker processes: started when they are needed, killed when they overrun, gone with the server."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

from app.concurrency.fair_semaphore import FairSemaphore
from app.errors import Unavailable
from app.json_schema.document import SchemaDocument
from app.json_schema.worker import REPLY, REQUEST

_PROGRAM = Path(__file__).with_name("worker.py")
_MAX_REPLY_BYTES = 65_536
_WALL_FACTOR = 10
"""How much longer than its processor time a check may take: the machine may be busy."""

_EXIT_S = 5.0
_TOO_LONG = "takes too long to check"
_ENDLESS = "has more wrong with it than can be told"


class SchemasBusy(Unavailable):
    """Too many JSON schemas are being checked now; try again later."""


class WorkerEnded(Exception):
    """A worker ended, or was killed, before it had an answer; the text says why."""


class _Worker:
    """One process, which answers one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "_Worker":
        """Start one; raises `OSError` where that cannot be."""
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

    async def ask(self, request: bytes, within_s: float) -> list[Any]:
        """The answer; raises `WorkerEnded`."""
        reading, writing = self._process.stdout, self._process.stdin
        assert reading is not None  # noqa: S101 - pipes, as asked for
        assert writing is not None  # noqa: S101
        try:
            async with asyncio.timeout(within_s):
                writing.write(request)
                await writing.drain()
                (length,) = REPLY.unpack(await reading.readexactly(REPLY.size))
                if length > _MAX_REPLY_BYTES:
                    raise WorkerEnded(_ENDLESS)
                answer: list[Any] = json.loads(await reading.readexactly(length))
                return answer
        except TimeoutError:
            raise WorkerEnded(_TOO_LONG) from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise WorkerEnded(await self._why_it_ended()) from error

    async def _why_it_ended(self) -> str:
        # Its pipe is closed, so it is ending by itself: by then there is nothing to kill.
        try:
            async with asyncio.timeout(_EXIT_S):
                code = await self._process.wait()
        except TimeoutError:
            return "did not end"
        return _TOO_LONG if code == -signal.SIGPROF else "takes too much memory to check"

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def gone(self) -> None:
        """Wait for its end, with its pipes closed."""
        await self._process.communicate()


class WorkerPool:
    """A few workers, and the order in which they are used."""

    def __init__(self, *, workers: int, check_s: float) -> None:
        """`check_s` is the processor time of one check."""
        self._semaphore = FairSemaphore(workers)
        self._check_s = check_s
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(
        self, document: SchemaDocument, value: bytes, *, owner: str, most_waiting: int | None = None
    ) -> list[Any]:
        """Verdict, path and reason; raises `WorkerEnded`, `SchemasBusy`, and `OSError` without processes."""
        header = REQUEST.pack(document.dialect, self._check_s, len(document.text), len(value))
        if most_waiting is not None and self._semaphore.waiting(owner) >= most_waiting:
            raise SchemasBusy(retry_after_s=1)
        async with self._semaphore.slot(owner):
            worker = await self._ready()
            try:
                answer = await worker.ask(header + document.text + value, self._check_s * _WALL_FACTOR)
            except BaseException:
                # Also when nobody waits for the answer any more: the next one would read it.
                self._end(worker)
                raise
            self._idle.append(worker)
            return answer

    async def aclose(self) -> None:
        """Kill every worker and wait until it is gone."""
        for worker in tuple(self._all):
            self._end(worker)
        while self._ending:
            await asyncio.wait(self._ending)

    async def _ready(self) -> _Worker:
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
        ending = asyncio.create_task(worker.gone())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
