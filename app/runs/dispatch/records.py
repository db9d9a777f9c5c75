"""The data of dispatching."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.ids import AccountId, RunKey
from app.platform.objects.documents import StoredDocument
from app.requests.run_request import PermissionMode
from app.runs.records import RunRecord


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that a process executes from now on."""

    run: RunRecord
    request: StoredDocument | None
    """None for a large one, which is read later."""
    has_commands: bool
    """Whether commands wait for its start."""


@dataclass(frozen=True, slots=True)
class ClaimedRuns:
    """What one claim has got."""

    runs: Sequence[ClaimedRun]
    has_left_some: bool
    """Whether there were more ready runs: those that other workers with free places may claim."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process of the service, as it reports itself with each heartbeat."""

    process_id: UUID
    version: str
    places: int
    taken: int
    draining: bool
    lease_s: float
    """For how long the heartbeat counts."""
    role: str = "serve"
    """`serve`, `api` or `worker`; an `api` has no places."""
    agents: Mapping[str, int] | None = None
    """How many CLI processes are `ready`, `parked`, `starting` and `busy`; None: it starts none."""
    clock_ahead_s: float = 0.0
    """How far its clock is ahead of the database's."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers whose heartbeat counts."""

    with_free_places: int
    first: UUID | None
    """The one that was started first; it alone does what has to be done once for all."""


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that waits until its run starts."""

    run: RunKey
    command: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredCommand:
    """A command that waits until its run starts, without its contents."""

    message_id: str | None
    """Of a message."""
    mode: PermissionMode | None
    """Of a change of the permission mode."""
    size: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class DueWork:
    """What the database would otherwise not be called for."""

    to_release: Sequence[tuple[AccountId, str | None]]
    """Accounts whose runs may be ready now; with a conversation whose next turn may be."""
    to_cancel: Sequence[RunKey]
    """Queued runs that were cancelled by a process that has not ended them."""
