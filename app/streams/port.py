"""EventLog: the port of the log that numbers a run's events and serves them to readers."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from app.errors import Conflict
from app.events import ClientEvent
from app.ids import RunKey


class LogEntry(NamedTuple):
    """An event and its position, which increases within its run: 1, 2, 3 … in each attempt."""

    position: int
    event: ClientEvent
    at: int = 0
    """When it was produced, in milliseconds since 1970; never before an earlier one of a run. 0: unknown."""


class WriterFenced(Conflict):
    """The run has ended, or another process writes its events now."""


class EventLog(Protocol):
    """Events of runs that are running or have just ended.

    One writer per run (`RunEventPublisher`), any number of readers. Writing never waits for a reader.
    `append` raises `Conflict` for a run that has ended or that another process has resumed; it raises
    `Unavailable` only after `aclose`.
    """

    async def append(self, run: RunKey, event: ClientEvent, *, at: int | None = None) -> int:
        """Append an event and return its position. `Done` closes the run's log.

        `at`: when it was produced, in milliseconds since 1970, if that was not now.
        """
        ...

    async def resume(self, run: RunKey, *, attempt: int, after: int) -> None:
        """Prepare to write a run as its next attempt; its events get the positions after `after`.

        Writers of earlier attempts are refused from now on. What they have written stays readable, as far
        as the log has it; `after` is greater than each of their positions, because readers may have
        received events that the log has lost. Raises `Conflict` for a run that has ended or that a later
        attempt writes.
        """
        ...

    def follow(self, run: RunKey, *, after: int = 0) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield the entries after a position in batches of bounded length, until `Done`.

        Waits for a run that has no events yet; ends at once for a run that was deleted from the log.
        """
        ...

    def stop_following(self, run: RunKey) -> None:
        """End the readers of a run that has ended in another process, which could not publish its end."""
        ...

    def abandon(self, run: RunKey) -> None:
        """Write no more of a run that another process writes; its readers follow that."""
        ...

    async def hand_over(self, run: RunKey, *, within_s: float) -> None:
        """As `abandon`, but as soon as other processes can read everything that was appended.

        After `within_s` at the latest: then they lack the last events.
        """
        ...

    async def park(self, run: RunKey, *, within_s: float) -> None:
        """As `hand_over`, for a run whose next attempt begins later, anywhere: its readers wait for that."""
        ...

    async def read(self, run: RunKey) -> Sequence[LogEntry]:
        """Return everything the log holds of a run; empty when it holds nothing.

        Raises `Unavailable` for a run of another process that cannot be read now.
        """
        ...

    async def delete(self, run: RunKey) -> None:
        """Delete a run's events; readers that are behind may finish reading first."""
        ...

    async def erase(self, run: RunKey) -> None:
        """Delete at once what `delete` has left for readers that are behind."""
        ...

    async def ping(self) -> None:
        """Raise `Unavailable` when the log cannot be reached."""
        ...

    async def aclose(self) -> None:
        """Release connections; readers end."""
        ...
