"""JSON of conversations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from app.billing.receipts.records import RunTotals
from app.conversations.messages import MessageType
from app.conversations.records import Conversation
from app.http.response_model import Moment, Money, ResponseModel
from app.ids import RUN_ID_PATTERN, STATE_KEY_PATTERN
from app.requests import ErrorCode, FinishReason, InputModel
from app.runs.conversations.page import ConversationPage, PageEntry
from app.runs.conversations.records import TurnRecord


class ConversationResponse(ResponseModel):
    """A conversation."""

    state_key: str
    title: str | None
    turns: int
    forked_from: str | None
    forked_at: str | None
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, session: Conversation) -> "ConversationResponse":
        """Build from a conversation record."""
        return cls.model_validate(session)


class ConversationMessageResponse(ResponseModel):
    """A message or tool call of a conversation; which fields are present depends on `type`."""

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


class RunResultResponse(ResponseModel):
    """How a run of the conversation ended; fields are null until it has ended.

    `costUsd` is the amount charged so far; null for keys without `receipts:read`.
    """

    type: Literal["result"]
    run_id: str
    graph_id: str
    ok: bool | None
    error: ErrorCode | None
    finish_reason: FinishReason | None
    cost_usd: Money | None


class ConversationDetailResponse(ConversationResponse):
    """A conversation and a page of its messages, oldest first; `nextCursor` is null on the last page."""

    messages: Sequence[ConversationMessageResponse | RunResultResponse]
    next_cursor: str | None

    @classmethod
    def of_page(
        cls, page: ConversationPage, totals: Mapping[str, RunTotals] | None
    ) -> "ConversationDetailResponse":
        """Build from a page: the messages of each run are followed by its result."""
        shown = ConversationResponse.of(page.conversation)
        return cls(**shown.model_dump(), messages=list(_messages(page, totals)), next_cursor=page.next_cursor)


class Fork(InputModel):
    """The target of a copy and the last run to copy; without `at`, the whole conversation."""

    at: Annotated[str, Field(pattern=RUN_ID_PATTERN)] | None = None
    state_key: Annotated[str, Field(pattern=STATE_KEY_PATTERN)] | None = None


def _messages(
    page: ConversationPage, totals: Mapping[str, RunTotals] | None
) -> Iterator[ConversationMessageResponse | RunResultResponse]:
    results: dict[str, RunResultResponse] = {run.key.run_id: _result(run, totals) for run in page.runs}
    last = page.continued_run
    for entry in page.entries:
        run_id = entry.message.run_id
        if run_id != last and last in results:
            yield results[last]
        last = run_id
        yield _message(entry)
    if last in results and last != page.next_run:
        yield results[last]


def _message(entry: PageEntry) -> ConversationMessageResponse:
    message = entry.message
    common: dict[str, Any] = {"type": message.type, "run_id": message.run_id, "at": message.at}
    match message.type:
        case "tool_call":
            return ConversationMessageResponse(
                **common,
                message_id=message.message_id,
                tool_call_id=message.tool_call_id,
                tool_name=message.tool_name,
                args=message.args,
                result=None if entry.result is None else entry.result.result,
                is_error=message.is_error if entry.result is None else entry.result.is_error,
            )
        case "assistant_message":
            return ConversationMessageResponse(
                **common, content=message.content, message_id=message.message_id, partial=message.partial
            )
        case "system_message":
            return ConversationMessageResponse(**common, compaction=message.compaction)
        case "user_message":
            return ConversationMessageResponse(**common, content=message.content)


def _result(run: TurnRecord, totals: Mapping[str, RunTotals] | None) -> RunResultResponse:
    return RunResultResponse(
        type="result",
        run_id=run.key.run_id,
        graph_id=run.graph_id,
        ok=run.ok,
        error=run.error,
        finish_reason=run.finish_reason,
        cost_usd=None if totals is None else totals[run.key.run_id].cost_usd,
    )
