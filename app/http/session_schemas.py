"""The JSON of conversations."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from app.graph import ErrorCode, FinishReason, InputModel
from app.http.schemas import Moment, Shape
from app.ids import RUN_ID_PATTERN, STATE_KEY_PATTERN
from app.runs.conversations import Said, SessionView
from app.runs.repository import RunRecord
from app.sessions.repository import Session
from app.sessions.transcript import MessageType


class SessionShape(Shape):
    """A conversation."""

    state_key: str
    turns: int
    forked_from: str | None
    forked_at: str | None
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, session: Session) -> "SessionShape":
        """Show a conversation."""
        return cls.model_validate(session)


class MessageShape(Shape):
    """Something said or done in a conversation; which fields are there depends on `type`."""

    type: MessageType
    run_id: str | None
    at: str | None
    content: str | None = None
    message_id: str | None = None
    partial: bool | None = None
    compaction: bool | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Any = None
    result: Any = None
    is_error: bool | None = None


class ResultShape(Shape):
    """How a run of the conversation ended; null while it has not."""

    type: Literal["result"]
    run_id: str
    ok: bool | None
    error: ErrorCode | None
    finish_reason: FinishReason | None


class SessionDetail(SessionShape):
    """A conversation and what was said in it, in order."""

    messages: Sequence[MessageShape | ResultShape]

    @classmethod
    def of_view(cls, view: SessionView) -> "SessionDetail":
        """Show a conversation whole: after what a run said comes how it ended."""
        shown = SessionShape.of(view.session)
        return cls(**shown.model_dump(), messages=list(_messages(view)))


class Fork(InputModel):
    """Where to copy a conversation to, and up to which run; without `at`, whole."""

    at: Annotated[str, Field(pattern=RUN_ID_PATTERN)] | None = None
    state_key: Annotated[str, Field(pattern=STATE_KEY_PATTERN)] | None = None


def _messages(view: SessionView) -> Iterator[MessageShape | ResultShape]:
    runs = {str(run.key.run_id): run for run in view.runs}
    last: str | None = None
    for said in view.said:
        run_id = said.message.run_id
        if run_id != last and last in runs:
            yield _result(runs[last])
        last = run_id
        yield _message(said)
    if last in runs:
        yield _result(runs[last])


def _message(said: Said) -> MessageShape:
    message = said.message
    common: dict[str, Any] = {"type": message.type, "run_id": message.run_id, "at": message.at}
    match message.type:
        case "tool_call":
            return MessageShape(
                **common,
                message_id=message.message_id,
                tool_call_id=message.tool_call_id,
                tool_name=message.tool_name,
                args=message.args,
                result=None if said.result is None else said.result.result,
                is_error=message.is_error if said.result is None else said.result.is_error,
            )
        case "assistant_message":
            return MessageShape(
                **common, content=message.content, message_id=message.message_id, partial=message.partial
            )
        case "system_message":
            return MessageShape(**common, compaction=message.compaction)
        case "user_message":
            return MessageShape(**common, content=message.content)


def _result(run: RunRecord) -> ResultShape:
    final = run.final
    return ResultShape(
        type="result",
        run_id=run.key.run_id,
        ok=None if final is None else final.ok,
        error=None if final is None else final.error,
        finish_reason=None if final is None else final.finish_reason,
    )
