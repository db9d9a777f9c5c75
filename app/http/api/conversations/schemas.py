"""JSON of conversations."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, StrictBool

from app.billing.receipts.records import RunTotals
from app.conversations.grants.records import PermissionGrant
from app.conversations.messages import MessageType
from app.conversations.records import Conversation, ConversationChange
from app.http.api.runs.schemas import FeedbackResponse
from app.http.parameters import NeverNull, StorableText
from app.http.response_model import Moment, Money, ResponseModel
from app.ids import RUN_ID_PATTERN, STATE_KEY_PATTERN
from app.requests.blank import require_visible
from app.requests.outcome import ErrorCode, FinishReason
from app.requests.wire_models import InputModel
from app.runs.conversations.branching import BranchSummary
from app.runs.conversations.page import ConversationPage, PageEntry
from app.runs.conversations.records import TurnRecord
from app.runs.conversations.titles import MAX_TITLE_CHARS

Title = Annotated[StorableText, Field(max_length=MAX_TITLE_CHARS), AfterValidator(require_visible)]


class ConversationResponse(ResponseModel):
    """A conversation."""

    state_key: str
    title: str | None
    turns: int
    forked_from: str | None
    forked_at: str | None
    branches: int
    pinned: bool
    archived: bool
    created_at: Moment
    updated_at: Moment


class ListedConversation(ConversationResponse):
    """A conversation in a list; `foundInRun` is the newest run with what was searched, if it has any."""

    found_in_run: str | None


class ChatResponse(ResponseModel):
    """A chat in a list: the conversation with this id."""

    id: str
    title: str | None
    updated_at: Moment

    @classmethod
    def of(cls, conversation: Conversation) -> "ChatResponse":
        return cls(id=conversation.state_key, title=conversation.title, updated_at=conversation.updated_at)


class AttachmentResponse(ResponseModel):
    """An attachment of a message, without its content; `size` in bytes is null if it is by URL."""

    type: Literal["image", "document"]
    media_type: str | None
    title: str | None
    size: int | None
    url: str | None


class CitationResponse(ResponseModel):
    """A page that an answer is based on, and an excerpt of it."""

    url: str
    title: str | None
    cited_text: str


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
    attachments: Sequence[AttachmentResponse] | None = None
    citations: Sequence[CitationResponse] | None = None

    @classmethod
    def of(cls, entry: PageEntry) -> "ConversationMessageResponse":
        message = entry.message
        common: dict[str, Any] = {"type": message.type, "run_id": message.run_id, "at": message.at}
        match message.type:
            case "tool_call":
                return cls(
                    **common,
                    message_id=message.message_id,
                    tool_call_id=message.tool_call_id,
                    tool_name=message.tool_name,
                    args=message.args,
                    result=None if entry.result is None else entry.result.result,
                    is_error=message.is_error if entry.result is None else entry.result.is_error,
                )
            case "assistant_message":
                cited = [CitationResponse.model_validate(each) for each in entry.citations]
                return cls(
                    **common,
                    content=message.content,
                    message_id=message.message_id,
                    partial=message.partial,
                    **({"citations": cited} if cited else {}),
                )
            case "system_message":
                return cls(**common, compaction=message.compaction)
            case "user_message":
                attached = [AttachmentResponse.model_validate(each) for each in message.attachments]
                found = {"attachments": attached} if attached else {}
                return cls(**common, content=message.content, message_id=message.message_id, **found)


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
    feedback: FeedbackResponse | None


class ConversationDetailResponse(ConversationResponse):
    """A conversation and a page of its messages, oldest first; `nextCursor` is null on the last page."""

    messages: Sequence[ConversationMessageResponse | RunResultResponse]
    next_cursor: str | None

    @classmethod
    def of_page(
        cls, page: ConversationPage, totals: Mapping[str, RunTotals] | None
    ) -> "ConversationDetailResponse":
        return cls.built_from(
            page.conversation, messages=list(_messages(page, totals)), next_cursor=page.next_cursor
        )


class GrantResponse(ResponseModel):
    """A tool that runs of this graph call in the conversation without asking a person."""

    id: UUID
    graph_id: str
    tool_name: str
    api_key_id: UUID
    created_at: Moment

    @classmethod
    def of(cls, grant: PermissionGrant) -> "GrantResponse":
        return cls.built_from(grant, tool_name=grant.tool_id)


class BranchResponse(ResponseModel):
    """A branch of a conversation: it has the runs up to `forkedFromRun` in common with an earlier one.

    `forkedFromBranch` is the branch on which that run was started; null without such a run.
    `runs` counts those that no earlier branch has, and `costUsd` is what they cost; null for keys without
    `receipts:read`.
    """

    branch_id: UUID
    forked_from_run: str | None
    forked_from_branch: UUID | None
    runs: int
    last_run: str | None
    created_at: Moment
    is_current: bool
    cost_usd: Money | None

    @classmethod
    def of(cls, branch: BranchSummary, totals: Mapping[str, RunTotals] | None) -> "BranchResponse":
        cost = None if totals is None else sum((totals[run].cost_usd for run in branch.runs), Decimal())
        return cls.built_from(branch, runs=len(branch.runs), cost_usd=cost)


class BranchesResponse(ResponseModel):
    """The branches of a conversation, oldest first, and what all of them cost."""

    items: Sequence[BranchResponse]
    cost_usd: Money | None

    @classmethod
    def of(
        cls, branches: Sequence[BranchSummary], totals: Mapping[str, RunTotals] | None
    ) -> "BranchesResponse":
        items = [BranchResponse.of(branch, totals) for branch in branches]
        cost = None if totals is None else sum((item.cost_usd or Decimal() for item in items), Decimal())
        return cls(items=items, cost_usd=cost)


class CurrentBranch(InputModel):
    """The branch on which a conversation is continued."""

    branch_id: UUID


class ChangedConversation(InputModel):
    """What changes of a conversation; omitted fields stay unchanged."""

    title: NeverNull[Title] = None
    pinned: NeverNull[StrictBool] = None
    archived: NeverNull[StrictBool] = None

    def change(self) -> ConversationChange:
        return ConversationChange(**self.model_dump())


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
        yield ConversationMessageResponse.of(entry)
    if last in results and last != page.next_run:
        yield results[last]


def _result(run: TurnRecord, totals: Mapping[str, RunTotals] | None) -> RunResultResponse:
    return RunResultResponse(
        type="result",
        run_id=run.key.run_id,
        graph_id=run.graph_id,
        ok=run.ok,
        error=run.error,
        finish_reason=run.finish_reason,
        cost_usd=None if totals is None else totals[run.key.run_id].cost_usd,
        feedback=None if run.feedback is None else FeedbackResponse.model_validate(run.feedback),
    )
