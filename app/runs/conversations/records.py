"""The data of a run as a turn of its conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.conversations.records import Conversation, NewTurn
from app.ids import ApiKeyId, RunId, RunKey, new_uuid
from app.platform.objects.documents import StoredDocument
from app.requests.attribution import ANY_LABELS, LabelFilter
from app.requests.messages import Message
from app.requests.outcome import ErrorCode, FinishReason
from app.requests.run_request import GraphRunRequest
from app.requests.wire_models import WireModel
from app.runs.conversations.titles import title_of
from app.runs.feedback.records import Feedback


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
    feedback: Feedback | None = None


@dataclass(frozen=True, slots=True)
class TakenTurn:
    """A run's place in a conversation."""

    conversation: Conversation
    earlier: Sequence[RunKey]
    """The runs before it that have not ended."""
    replaces: bool
    """Whether it cancels them."""

    @property
    def to_cancel(self) -> Sequence[RunKey]:
        return self.earlier if self.replaces else ()


def new_turn(request: GraphRunRequest, state_key: str) -> NewTurn:
    executor, _, _ = request.graph_id.partition(":")
    return NewTurn(state_key, title_of(request.messages[-1].text), executor, new_uuid())


@dataclass(frozen=True, slots=True)
class ConversationFilter:
    """Which conversations of an account are listed; None means all."""

    used_from: datetime | None = None
    used_to: datetime | None = None
    """Exclusive."""
    labels: LabelFilter = ANY_LABELS
    """Of one of its runs."""
    pinned: bool | None = None
    archived: bool | None = None
    words: str | None = None
    """What its title, or a message or an answer of one of its runs has, as people search the web."""


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """What is stored of a run's request."""

    run_id: RunId
    question: str | None
    """The beginning of its last message; None once it is deleted."""
    request: StoredDocument | None
    """None if it is not stored any more, or was not read because it is too large."""
    fits: bool
    """Whether it is not too large."""


class Opening(WireModel):
    """What a client has created a conversation with, as the conversation's row keeps it."""

    api_key_id: ApiKeyId | None = None
    """The key that has created it; None: it began with a run."""
    end_user: str | None = None
    metadata: Mapping[str, str] = {}
    messages: tuple[Message, ...] = ()
    """What its first run gets as earlier turns, and keeps from then on."""


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation and what it was created with."""

    conversation: Conversation
    opening: Opening
    path: Sequence[RunId] = ()
    """The runs of its current branch that have their contents, oldest first, if it was read."""
