"""SharedListener: the listening socket of several processes, each of which accepts as many connections."""

import mmap
import os
import select
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from app.cli.processes.options import MOST_PROCESSES

_NUMBER_BYTES: Final = 8
PATIENCE_S: Final = 0.005
"""How long a connection waits for a process whose turn it is: that may be busy, or stand still."""


class SharedListener(socket.socket):
    """An inherited socket. The system wakes all processes that wait for it, and often the same one is first.

    How many connections each has accepted is in a file that all have mapped; each writes its own number.
    A process that is ahead of another answers as if none waited, and is asked again in the next iteration of
    its event loop.
    """

    def __init__(self, descriptor: int, accepted: int, number: int) -> None:
        """`accepted` is that of an `accepted_file`; `number` is that of this process, from 1."""
        super().__init__(fileno=descriptor)
        self._own = number - 1
        self._seen, self._since = 0, 0.0
        """All that were accepted when the connection that waits now was first seen, and when that was."""
        with os.fdopen(accepted, "r+b") as file:
            # 0 of a process that does not accept.
            self._accepted = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    def listen(self, *backlog: int) -> None:
        """Take part from now on; what the others have accepted before is not made up for."""
        self._accepted[self._own] = max(1, *self._accepted)
        super().listen(*backlog)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; raises `BlockingIOError` if none waits, or it is another process's turn."""
        own, now, total = self._accepted[self._own], time.monotonic(), sum(self._accepted)
        if any(0 < each < own for each in self._accepted):
            if total != self._seen:
                # If none waits, the next one is seen when it does.
                self._seen, self._since = total if self._has_waiting else 0, now
            if now - self._since < PATIENCE_S:
                raise BlockingIOError
        accepted = super().accept()
        self._accepted[self._own] = own + 1
        return accepted

    @property
    def _has_waiting(self) -> bool:
        waiting = select.poll()
        waiting.register(self, select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        """Leave what waits to the others."""
        self._accepted[self._own] = 0
        super().close()


@contextmanager
def accepted_file(directory: str) -> Iterator[int]:
    """How many connections each process has accepted: none; yields a descriptor."""
    with tempfile.TemporaryFile(dir=directory) as file:
        # Written: on a full disk, a process that writes to a mapped page without space is killed.
        file.write(bytes(MOST_PROCESSES * _NUMBER_BYTES))
        file.flush()
        yield file.fileno()


def withdraw(accepted: int, number: int) -> None:
    """Let no other process wait for this one, which was killed."""
    os.pwrite(accepted, bytes(_NUMBER_BYTES), (number - 1) * _NUMBER_BYTES)
