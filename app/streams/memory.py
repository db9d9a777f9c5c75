"""The event log of a single process: one list per run."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from app.errors import Conflict, Unavailable
from app.events import ClientEvent, Done
from app.ids import RunKey
from app.streams.port import LogEntry

BATCH = 500
"""The most entries of one batch: a reader who comes late is told of a long run in pieces."""

REMEMBERED = 4096
"""How many forgotten runs are still known by name, for a reader who asks a moment too late."""


class RunLogClosed(Conflict):
    """The run has ended: nothing more can be said in it."""


class EventLogClosed(Unavailable):
    """The event log is closed."""


@dataclass(slots=True)
class _Tape:
    """One run: what was said, and those who listen."""

    entries: list[LogEntry] = field(default_factory=list)
    before: int = 0
    """The position before the first."""
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    readers: int = 0
    ended: bool = False

    def end(self) -> None:
        self.ended = True
        self.grown.set()


class MemoryEventLog:
    """Keeps the events of this process's runs until they are forgotten.

    A reader holds its run's tape itself, so forgetting a run costs the reader nothing, and the
    tape is freed when the last one leaves.
    """

    def __init__(self) -> None:
        self._tapes: dict[RunKey, _Tape] = {}
        self._forgotten: dict[RunKey, None] = {}
        self._closed = False

    def __len__(self) -> int:
        """Count the runs held, those that are merely waited for included."""
        return len(self._tapes)

    async def append(self, run: RunKey, event: ClientEvent) -> int:
        """Append an event and return its position.

        Raises `RunLogClosed` after `Done` or `forget`, `EventLogClosed` after `aclose`.
        """
        if self._closed:
            raise EventLogClosed
        if run in self._forgotten:
            raise RunLogClosed
        tape = self._tape(run)
        if tape.ended:
            raise RunLogClosed
        position = tape.before + len(tape.entries) + 1
        tape.entries.append(LogEntry(position, event))
        if isinstance(event, Done):
            tape.ended = True
        tape.grown.set()
        return position

    async def resume(self, run: RunKey, *, after: int) -> None:
        """Begin a run's events after a position, as nothing is held of it."""
        tape = self._tape(run)
        if not tape.entries:
            tape.before = after

    async def follow(
        self,
        run: RunKey,
        *,
        after: int = 0,
    ) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Yield the entries after a position, what is ready up to a batch at once, until `Done`."""
        if self._closed or run in self._forgotten:
            return
        tape = self._tape(run)
        tape.readers += 1
        position = after
        try:
            while True:
                start = max(0, position - tape.before)
                if batch := tuple(tape.entries[start : start + BATCH]):
                    yield batch
                    position = batch[-1].position
                    # A writer that never waits must not keep the loop to itself and us.
                    await asyncio.sleep(0)
                elif tape.ended:
                    return
                else:
                    # Nothing is awaited between the look above and the wait: no entry is missed.
                    tape.grown.clear()
                    await tape.grown.wait()
        finally:
            tape.readers -= 1
            self._drop_if_unused(run, tape)

    async def read(self, run: RunKey) -> tuple[LogEntry, ...]:
        """Return everything held of a run."""
        tape = self._tapes.get(run)
        return tuple(tape.entries) if tape else ()

    async def forget(self, run: RunKey) -> None:
        """Let go of a run; readers who are still behind finish reading first."""
        if tape := self._tapes.pop(run, None):
            tape.end()
        self._forgotten[run] = None
        if len(self._forgotten) > REMEMBERED:
            del self._forgotten[next(iter(self._forgotten))]

    async def ping(self) -> None:
        """Raise `EventLogClosed` after `aclose`."""
        if self._closed:
            raise EventLogClosed

    async def aclose(self) -> None:
        """Let go of everything; readers finish what is there and end."""
        self._closed = True
        for tape in self._tapes.values():
            tape.end()
        self._tapes.clear()

    def _tape(self, run: RunKey) -> _Tape:
        if (tape := self._tapes.get(run)) is None:
            tape = self._tapes[run] = _Tape()
        return tape

    def _drop_if_unused(self, run: RunKey, tape: _Tape) -> None:
        """Somebody waited for a run that never spoke, and has left."""
        if not tape.entries and not tape.readers and self._tapes.get(run) is tape:
            del self._tapes[run]
