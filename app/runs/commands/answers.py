"""Answers to commands, as one process sends them to another."""

from typing import Any, Literal

from app.errors import AppError, FieldError, Invalid, Unavailable
from app.executors.client_calls import ClientToolCallAnswered, ClientToolCallNotFound
from app.executors.inbox import MessageQueueFull, RunEnded
from app.executors.waiting.questions import QuestionAnswered, QuestionNotFound
from app.executors.waiting.records import PermissionDecided, PermissionNotFound
from app.requests.principal import ScopeMissing
from app.requests.wire_models import WireModel

MAX_FIELD_ERRORS = 20
_FIELD_CHARS = 200
_DETAIL_CHARS = 500
"""Of each text of a refusal, which may quote what the client has sent: with twelve bytes for each character
a refusal is still smaller than `MAX_MESSAGE_BYTES`."""

WhyNotApplied = Literal[
    "not_here", "pending", "content_missing", "overloaded", "process_gone", "timeout", "relay_unavailable"
]


class NotApplied(Exception):
    """A command was not applied, or its answer is not known yet: it has to be sent again."""

    def __init__(self, reason: WhyNotApplied) -> None:
        self.reason = reason
        super().__init__(reason)


class CommandFailed(AppError):
    """The command failed with an internal error."""


_REFUSALS: dict[str, type[AppError]] = {
    error.code: error
    for error in (
        *(RunEnded, MessageQueueFull, PermissionNotFound, PermissionDecided),
        *(ClientToolCallNotFound, ClientToolCallAnswered, QuestionNotFound, QuestionAnswered),
        *(ScopeMissing, Invalid, Unavailable, CommandFailed),
    )
}
"""The errors with which a run may refuse a command, by code."""


class CommandRefusal(WireModel):
    """The error with which a run refuses a command."""

    code: str
    detail: str
    errors: tuple[tuple[str, str], ...] = ()
    retry_after_s: int | None = None

    @classmethod
    def of(cls, error: AppError) -> "CommandRefusal":
        if error.code not in _REFUSALS:
            error = Unavailable() if isinstance(error, Unavailable) else CommandFailed()
        faults = [
            (fault.field[:_FIELD_CHARS], fault.message[:_FIELD_CHARS])
            for fault in error.errors[:MAX_FIELD_ERRORS]
        ]
        detail = error.detail[:_DETAIL_CHARS]
        return cls(code=error.code, detail=detail, errors=tuple(faults), retry_after_s=error.retry_after_s)

    def error(self) -> AppError:
        """The error to raise."""
        errors = [FieldError(*fault) for fault in self.errors]
        kind = _REFUSALS.get(self.code, CommandFailed)
        return kind(self.detail, errors=errors, retry_after_s=self.retry_after_s)


class Answer(WireModel):
    """What became of a command: one of these is set."""

    result: dict[str, Any] | None = None
    refusal: CommandRefusal | None = None
    not_applied: WhyNotApplied | None = None

    def unpack(self) -> dict[str, Any]:
        """The result; raises the refusal, or `NotApplied`."""
        if self.refusal is not None:
            raise self.refusal.error()
        if self.result is None:
            raise NotApplied(self.not_applied or "not_here")
        return self.result
