"""JSON of calls that wait for an answer."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from app.events import QuestionItem
from app.executors.waiting.port import WaitKind
from app.http.response_model import Moment, Money, ResponseModel
from app.runs.waits.listing.records import OpenCall
from app.runs.waits.listing.service import AccountCallPage

SchemaOf: TypeAlias = Callable[[str], dict[str, Any] | None]
"""The schema of a tool's arguments, by the tool's id."""

ApprovalKind = Literal["approval", "question", "client_tool", "budget"]
KINDS: Final[dict[ApprovalKind, WaitKind]] = {
    "approval": "permission",
    "question": "question",
    "client_tool": "client_tool",
    "budget": "budget",
}
_SHOWN: Final[dict[WaitKind, ApprovalKind]] = {stored: shown for shown, stored in KINDS.items()}


class ReachedBudget(ResponseModel):
    """What a run has spent, and its limit."""

    spent_usd: Money
    max_budget_usd: Money


class ApprovalResponse(ResponseModel):
    """A tool call, a question, a call of a client tool, or a budget that waits for an answer.

    `requestId` is that of the route which answers it; for a client tool the `toolCallId`. The fields of its
    event are null where it has none; `budget` also for keys without `receipts:read`.
    """

    run_id: str
    request_id: str
    kind: ApprovalKind
    graph_id: str
    state_key: str | None
    tool_call_id: str | None
    tool_name: str | None
    args: JsonValue
    input_schema: Annotated[
        dict[str, Any] | None,
        Field(description="Of the arguments, for keys with `runs:approve`; null for tools of others."),
    ]
    grantable: bool
    source: str | None
    questions: Sequence[QuestionItem] | None
    budget: ReachedBudget | None
    requested_at: Moment
    expires_at: Moment

    @classmethod
    def of(cls, call: OpenCall, *, shows_money: bool, schema_of: SchemaOf) -> "ApprovalResponse":
        asked: dict[str, Any] = call.request
        return cls.built_from(
            call,
            request_id=call.call_id,
            kind=_SHOWN[call.kind],
            tool_call_id=asked.get("toolCallId"),
            tool_name=asked.get("toolName"),
            args=asked.get("args"),
            input_schema=schema_of(asked["toolName"]) if call.kind == "permission" else None,
            grantable=asked.get("grantable", False),
            source=asked.get("source"),
            questions=asked.get("questions"),
            budget=asked if shows_money and call.kind == "budget" else None,
        )


class ApprovalCounts(ResponseModel):
    """How many calls of each kind wait."""

    approval: int
    question: int
    client_tool: int
    budget: int


class ApprovalsResponse(ResponseModel):
    """A page of calls that wait; `counts` are of all kinds, whichever is listed."""

    items: Sequence[ApprovalResponse]
    next_cursor: str | None
    counts: ApprovalCounts

    @classmethod
    def of(
        cls, page: AccountCallPage, *, shows_money: bool, schema_of: SchemaOf = lambda _: None
    ) -> "ApprovalsResponse":
        counts = {shown: page.counts.get(stored, 0) for shown, stored in KINDS.items()}
        return cls(
            items=[
                ApprovalResponse.of(call, shows_money=shows_money, schema_of=schema_of) for call in page.calls
            ],
            next_cursor=page.next_cursor,
            counts=ApprovalCounts.model_validate(counts),
        )
