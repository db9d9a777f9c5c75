"""The records of runs and of their stored events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid5

from app.conversations.cuts.answer_cuts import ShownAnswer
from app.conversations.records import Conversation
from app.events import MeterReport
from app.ids import ApiKeyId, RunId, RunKey
from app.platform.telemetry.trace_context import CallerTrace
from app.requests.attribution import ANY_LABELS, NO_LABELS, LabelFilter, RunLabels
from app.requests.outcome import GraphFinal, RunStatus, SpentBudget
from app.runs.feedback.records import Feedback
from app.usage.records import Meters

DEFAULT_PRIORITY = 3
QUESTION_CHARS = 16 * 1024
"""How much of the last message is stored as the run's question, beside the request, which may be large."""
AT_END = -1
"""Instead of a time: when the run ended, which the database decides."""
UNFINISHED: tuple[RunStatus, ...] = ("queued", "running", "waiting")
UNEXECUTED: tuple[RunStatus, ...] = ("queued", "waiting")
"""Of a run that has not ended and is in no process."""


def titling_run(first: RunKey) -> RunKey:
    """The run that asks for the title of the conversation with this first run."""
    return first._replace(run_id=RunId(str(uuid5(first.account_id, f"title of {first.run_id}"))))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run's row without its request and events."""

    key: RunKey
    api_key_id: ApiKeyId
    graph_id: str
    model: str
    status: RunStatus
    attempt: int
    request_hash: bytes
    request_id: str | None
    state_key: str | None
    turn: int | None
    interruption: dict[str, Any] | None
    """The last `interrupted` event, or a cancellation that is to become one, and its time."""
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    final: GraphFinal | None
    meters: Meters | None
    tool_failures: int | None
    """How many tool calls failed; None until the run has ended, or was parked."""
    contents_deleted_at: datetime | None
    """When its request, events and answer were deleted."""
    events_deleted_at: datetime | None
    """When its events were deleted, with its other contents or before them."""
    process_id: UUID | None
    """The process that executes it, or was the last; None while it is queued."""
    priority: int
    """From 1, the highest, to 5: which of its account's queued runs becomes ready first."""
    start_after: datetime | None
    queued_position: int | None
    """Of its event `queued`; None if it was started at once."""
    caller_trace: CallerTrace | None = None
    """The span that started it, if its request named one."""
    session_id: UUID | None = None
    """The branch of its conversation; None without one, and for runs from before there were branches."""
    message_id: str | None = None
    """The client's id of the message that it answers."""
    stops_unread: bool = False
    """Whether it is cancelled when its readers have left."""
    shown_answer: ShownAnswer | None = None
    """What its client shows of the answer before it; None: all of it, as far as is known."""
    skills: Mapping[str, str] | None = None
    """The skills it could read, with their hashes; None without any, and until it has ended."""
    parked_s: float = 0.0
    """How long it was parked until it became ready again."""
    is_parked: bool = False
    """Whether it goes on with what it was parked with, and has not begun to."""
    labels: RunLabels = NO_LABELS
    feedback: Feedback | None = None
    reached: Sequence[SpentBudget] = ()
    """Soft budgets that were used up, for the request that has started it."""

    @property
    def reported(self) -> MeterReport | None:
        """The meters and failures of what was executed, stored when it is parked and when it ends."""
        if self.meters is None or self.tool_failures is None:
            return None
        return MeterReport(self.meters, tool_failures=self.tool_failures)

    @property
    def finished(self) -> bool:
        """Whether it has ended, with or without an answer."""
        return self.status not in UNFINISHED

    @property
    def is_cancelled(self) -> bool:
        return self.interruption is not None and self.interruption["kind"] == "cancel"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs of an account are listed; None means all."""

    status: RunStatus | None = None
    graph_id: str | None = None
    model: str | None = None
    api_key_id: UUID | None = None
    state_key: str | None = None
    accepted_from: datetime | None = None
    accepted_to: datetime | None = None
    """Exclusive."""
    labels: LabelFilter = ANY_LABELS


@dataclass(frozen=True, slots=True)
class NewRun:
    """The values of a new run's row."""

    key: RunKey
    api_key_id: ApiKeyId
    graph_id: str
    model: str
    request: str
    """As JSON."""
    question: str
    """The beginning of the last message's text."""
    request_hash: bytes
    request_id: str | None
    process_id: UUID
    """The process that accepts it."""
    conversation: Conversation | None = None
    starts_at_once: bool = False
    """Whether that process executes it as soon as it is stored, unless it has to wait for other runs."""
    priority: int = DEFAULT_PRIORITY
    start_after: datetime | None = None
    caller_trace: CallerTrace | None = None
    message_id: str | None = None
    stops_unread: bool = False
    shown_answer: ShownAnswer | None = None
    labels: RunLabels = NO_LABELS
    objects: frozenset[str] = frozenset()
    """The SHA-256 of strings of its request that are stored outside the database and are marks here."""


@dataclass(frozen=True, slots=True)
class DriftedRuns:
    """Runs for which the SDK's and the gateway's meter disagreed, on messages or on the cost."""

    runs: int
    messages: int
    cost_usd: Decimal
    """The differences in cost, added without their signs."""
    newest: Sequence[RunRecord]


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """One row: an event, or neighbouring deltas of one message.

    `data` is the event's JSON. For several deltas, `delta` is their joined text and `cuts` the length
    of each in code points. The column must preserve the order of names and U+0000 (`json`, not
    `jsonb`), because a replay repeats the live stream byte for byte.
    """

    position: int
    last_position: int
    data: dict[str, Any]
    at: int = 0
    """When the first of them was produced, in milliseconds since 1970; 0: unknown; or `AT_END`."""
    gaps: bytes | None = None
    """The milliseconds between each of several deltas and the next, as `encode_gaps` writes them."""
