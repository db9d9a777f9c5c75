"""The data of a fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from app.ids import AccountId

WorkerState = Literal["alive", "draining", "silent"]


@dataclass(frozen=True, slots=True)
class FleetWorker:
    """A process, as its latest heartbeat reported it, and what the database knows of it."""

    process_id: UUID
    role: str
    """`serve`, `api` or `worker`."""
    version: str
    places: int
    taken: int
    """At its latest heartbeat; `running` is more recent."""
    draining: bool
    lease_s: float
    started_at: datetime
    last_heartbeat_at: datetime
    is_alive: bool
    """Whether that heartbeat still counts."""
    running: int
    """Runs that are stored as running in this process."""
    agents: Mapping[str, int] | None
    """At its latest heartbeat: its CLI processes by state; None: it starts none."""

    @property
    def state(self) -> WorkerState:
        """`silent` if its heartbeat does not count any more, whatever it reported before."""
        if not self.is_alive:
            return "silent"
        return "draining" if self.draining else "alive"

    @property
    def places_free(self) -> int:
        return max(0, self.places - self.running) if self.state == "alive" else 0


@dataclass(frozen=True, slots=True)
class HeldRuns:
    """Queued runs that no worker may start yet, by what they wait for."""

    turn: int
    limit: int
    start_time: int


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """The runs of all accounts that have not ended."""

    ready: int
    held: HeldRuns
    running: int
    waiting: int
    """In no process, until calls are answered."""
    oldest_ready_s: float | None
    """For how long the oldest ready run has waited; None if there is none."""
    accounts: int
    """How many accounts they belong to."""


@dataclass(frozen=True, slots=True)
class AccountQueue:
    """The runs of one account that have not ended."""

    account_id: AccountId
    account: str
    """Its name."""
    ready: int
    held: int
    running: int
    waiting: int
    oldest_ready_s: float | None


@dataclass(frozen=True, slots=True)
class ExecutedAttempt:
    """Where an attempt of a run was executed."""

    attempt: int
    process_id: UUID | None
    """None: unknown, because it waited for a person, began again in its process, or is not executed yet."""
    taken_over_at: datetime | None
    """None: no other process has taken it over."""
    handed_over: bool
    """Whether its process gave it away because it stopped, instead of being lost."""


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """Workers and queue at one moment of the database."""

    at: datetime
    workers: Sequence[FleetWorker]
    totals: QueueTotals
    accounts: Sequence[AccountQueue]
    """Those with the most queued runs first."""

    @property
    def places(self) -> int:
        return sum(worker.places for worker in self.workers if worker.state == "alive")

    @property
    def places_free(self) -> int:
        return sum(worker.places_free for worker in self.workers)

    @property
    def accounts_omitted(self) -> int:
        """How many accounts with unfinished runs are not listed."""
        return self.totals.accounts - len(self.accounts)
