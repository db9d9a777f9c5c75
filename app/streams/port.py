"""EventLog: the port of the log that numbers a run's events and serves them to readers."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from app.events import ClientEvent
from app.ids import RunKey


class LogEntry(NamedTuple):
    """An event and its position: 1, 2, 3 … within its run."""

    position: int
    event: ClientEvent


class EventLog(Protocol):
    """Events of runs that are running or have just ended.

    One writer per run (`RunEventPublisher`), any number of readers. Writing never waits for a reader.
    Every method may raise `Unavailable`; `append` raises `Conflict` for a run that has ended.
    """

    async def append(self, run: RunKey, event: ClientEvent) -> int:
        """Append an event and return its position. `Done` closes the run's log."""
        ...

    async def resume(self, run: RunKey, *, after: int) -> None:
        """Prepare to continue a run of another process; if its events are lost, after this position."""
        ...

    def follow(self, run: RunKey, *, after: int = 0) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield the entries after a position in batches of bounded length, until `Done`.

        Waits for a run that has no events yet; ends at once for a run that was deleted from the log.
        """
        ...

    async def read(self, run: RunKey) -> Sequence[LogEntry]:
        """Return everything the log holds of a run; empty when it holds nothing."""
        ...

    async def delete(self, run: RunKey) -> None:
        """Delete a run's events; readers that are behind may finish reading first."""
        ...

    async def ping(self) -> None:
        """Raise `Unavailable` when the log cannot be reached."""
        ...

    async def aclose(self) -> None:
        """Release connections; readers end."""
        ...
