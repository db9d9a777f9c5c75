"""Dispatcher: gives ready runs to processes with free places. PostgreSQL or Temporal does it."""

from contextlib import AbstractContextManager
from typing import Protocol

from app.runs.dispatch.places import PlaceClaim, Places
from app.runs.dispatch.records import Workers

READY_CHANNEL = "runtally_runs_ready"
"""The database's notifications of ready runs; with the process that a run is offered to, or empty."""

POLL_S = 1.0
"""How often ready runs are looked for without a notification."""


class Dispatcher(Protocol):
    """What a process takes part with in the dispatching of all processes.

    Which run is ready is decided by the database; a run is executed by the process that claims its row.
    """

    @property
    def places(self) -> Places: ...

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that does what has to be done once for all."""
        ...

    @property
    def is_draining(self) -> bool:
        """Whether this process takes no more runs."""
        ...

    def claim_place(self, *, wanted: bool) -> AbstractContextManager[PlaceClaim]:
        """Take a place for a run that this process stores as its own, if it is wanted and free."""
        ...

    def drain(self) -> None:
        """Take no more runs: those that wait are for other workers, or for this one when it is back."""
        ...

    def observe(self, workers: Workers) -> None:
        """The last heartbeat has shown these workers."""
        ...

    async def claim(self) -> None:
        """Dispatch what is ready now, as far as places are free."""
        ...

    async def work(self) -> None: ...

    async def ping(self) -> None:
        """Raise `Unavailable` if what it needs besides the database does not respond."""
        ...
