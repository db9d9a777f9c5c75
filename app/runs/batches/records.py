"""The data of batches and their items."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal
from uuid import UUID, uuid5

from app.ids import AccountId, ApiKeyId, RunId, RunKey

MAX_ITEMS = 10_000
MAX_ACTIVE = 20
"""How many batches of an account may be unfinished: each is looked at several times a second."""
BATCH_PRIORITY = 5
"""Of its runs, unless their requests have another one: behind everything else of the account."""

BatchStatus = Literal["running", "stopping", "completed", "stopped", "cancelled"]
"""`stopping`: no further item is started, started ones go on."""

ItemStatus = Literal["pending", "started", "succeeded", "failed", "cancelled", "refused"]
"""`started`: it is being started, or its run has not ended, or not been counted. `cancelled`: its run, or it
was never started. `refused`: its run was refused with an error."""

MAX_USD, CANCELLED = "max_usd", "cancelled"
"""Reasons to stop a batch; others are the codes of errors that would meet every further item."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, without its items."""

    id: UUID
    account_id: AccountId
    api_key_id: ApiKeyId
    """The key that its runs are started with."""
    graph_id: str
    request_hash: bytes
    parallelism: int
    max_usd: Decimal | None
    items: int
    pending: int
    succeeded: int
    failed: int
    cancelled: int
    refused: int
    cost_usd: Decimal
    """Of the items that have ended and are counted."""
    stop_reason: str | None
    created_at: datetime
    ended_at: datetime | None
    step: int
    """Which claim this is; another process has claimed it since if the row has another one."""

    @property
    def status(self) -> BatchStatus:
        """Its state."""
        if self.ended_at is None:
            return "running" if self.stop_reason is None else "stopping"
        if self.stop_reason is None:
            return "completed"
        return "cancelled" if self.stop_reason == CANCELLED else "stopped"

    @property
    def started(self) -> int:
        """How many items have a run that is not counted yet."""
        return self.items - self.pending - self.succeeded - self.failed - self.cancelled - self.refused


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """What the client decides about a batch, besides its items."""

    parallelism: int
    max_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to insert."""

    custom_id: str
    request: str = field(repr=False)
    """As JSON, with its files."""
    reserve_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class NewBatch:
    """The values of a batch to insert."""

    id: UUID
    account_id: AccountId
    api_key_id: ApiKeyId
    graph_id: str
    terms: BatchTerms
    items: Sequence[NewItem] = field(repr=False)
    request_hash: bytes = b""


@dataclass(frozen=True, slots=True)
class BatchItem:
    """An item, without its request."""

    position: int
    custom_id: str
    run_id: RunId
    """The id of its run, whether or not there is one."""
    status: ItemStatus
    error: str | None


@dataclass(frozen=True, slots=True)
class StartedItem:
    """An item whose run was started, or is to be started next."""

    position: int
    run: RunKey
    reserve_usd: Decimal
    bytes: int
    run_status: str | None
    """None: there is no run yet."""
    has_ended: bool
    ended_for_s: float
    messages: int
    """How many messages the gateway has seen, once the run has ended."""


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """Limits and times of what executes batches."""

    poll_s: float = 1.0
    """How often a process without a batch looks for one."""
    pause_s: float = 0.1
    """Between two steps of a batch."""
    waiting_pause_s: float = 0.3
    """After a step that changed nothing."""
    lease: timedelta = timedelta(seconds=20)
    """After this time another process takes up a step that this one has not finished."""
    receipts_within_s: float = 5.0
    """How long the receipts of an ended run are waited for, before what there is counts."""
    per_account: int | None = None
    """How many runs of one account may be active, as for the dispatcher."""


def run_id_of(batch: UUID, position: int) -> RunId:
    """The id of the run of an item: the same whichever process starts it, and however often."""
    return RunId(str(uuid5(batch, str(position))))


def may_start(max_usd: Decimal | None, committed: Decimal, reserve: Decimal, *, is_alone: bool) -> bool:
    """Whether an item may start beside items that have cost, or may cost, what is `committed`.

    One that is alone may start as long as anything is left: a bound of what it may cost never stops a batch
    that could go on.
    """
    if max_usd is None or committed + reserve <= max_usd:
        return True
    return is_alone and committed < max_usd
