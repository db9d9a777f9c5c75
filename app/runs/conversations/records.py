"""The data of a run as a turn of its conversation."""

from dataclasses import dataclass
from datetime import datetime

from app.ids import RunId, RunKey
from app.requests.outcome import ErrorCode, FinishReason


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A run of a conversation; `ok`, `error` and `finish_reason` are None while it has not ended."""

    key: RunKey
    graph_id: str
    state_key: str | None
    turn: int | None
    created_at: datetime
    question: str
    """The beginning of its last message."""
    ok: bool | None
    error: ErrorCode | None
    finish_reason: FinishReason | None
    message_id: str | None = None
    """The client's id of the message that it answers."""


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """What is stored of a run's request."""

    run_id: RunId
    question: str | None
    """The beginning of its last message; None once it is deleted."""
    request: str | None
    """As JSON; None if it is not stored any more, or was not read because it is too large."""
    fits: bool
    """Whether it is not too large."""
