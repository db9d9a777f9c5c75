"""The event log: where a run's events get their position and where readers find them."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from app.events import ClientEvent
from app.ids import RunKey


class LogEntry(NamedTuple):
    """An event and its position: 1, 2, 3 … within its run."""

    position: int
    event: ClientEvent


class EventLog(Protocol):
    """Events of runs that are under way or have just ended.

    One writer per run (the relay); any number of readers. Writing never waits for a reader.
    Every method may raise `Unavailable`; `append` raises `Conflict` for a run that has ended.
    """

    async def append(self, run: RunKey, event: ClientEvent) -> int:
        """Append an event and return its position. `Done` closes the run's log."""
        ...

    async def resume(self, run: RunKey, *, after: int) -> None:
        """Go on with a run that another process has begun: where its events are gone, after a position."""
        ...

    def follow(self, run: RunKey, *, after: int = 0) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield the entries after a position, what is ready in batches of bounded length, until `Done`.

        A run nobody has written to yet is waited for. A run that was forgotten ends at once.
        """
        ...

    async def read(self, run: RunKey) -> Sequence[LogEntry]:
        """Return everything the log holds of a run; empty when it holds nothing."""
        ...

    async def forget(self, run: RunKey) -> None:
        """Let go of a run; readers who are still behind may finish reading first."""
        ...

    async def ping(self) -> None:
        """Raise `Unavailable` when the log cannot be reached."""
        ...

    async def aclose(self) -> None:
        """Release connections; readers end."""
        ...
