"""The events of a run.

An executor produces `AiEvent`s. Clients receive `ClientEvent`s: `UsageReport` is not one of them, so
the type checker keeps usage and cost out of every stream.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, JsonValue, TypeAdapter
from pydantic.json_schema import SkipJsonSchema

from app.requests.outcome import ErrorCode, FileChanges, FinalUsage, FinishReason
from app.requests.wire_models import LEFT_OUT_IF_NONE, WireModel
from app.usage.records import Meters, UsageFact

StopKind = Literal["interrupt", "cancel"]
ResolvedBy = Literal["decided", "granted", "expired", "run_stopped"]
ConsentDecision = Literal["allow", "deny", "allow_conversation"]
"""The last one allows all later calls of the tool in the conversation, too."""
QuestionResolvedBy = Literal["answered", "declined", "expired", "run_stopped"]
WarningCode = Literal[
    "client_tools_ignored",
    "attachments_left_out",
    "attachment_refused",
    "tools_left_out",
    "run_stopped",
    "files_not_kept",
    "messages_not_delivered",
]
StopState = Literal["requested", "acknowledged", "stopped"]


def _is_false(value: object) -> bool:
    return value is False


class _Event(WireModel):
    parent_tool_call_id: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    """The tool call whose subagent this event belongs to."""


class RunStarted(_Event):
    """The run got a slot and starts."""

    type: Literal["run_started"] = "run_started"
    run_id: str
    graph_id: str
    model: str
    attempt: int


class Queued(_Event):
    """The run has to wait. Always the first event.

    `position` counts the runs that wait, itself included, or the earlier runs of its conversation.
    """

    type: Literal["queued"] = "queued"
    position: int


class TextDelta(_Event):
    """More text of a message."""

    type: Literal["text_delta"] = "text_delta"
    message_id: str
    delta: str


class ThinkingDelta(_Event):
    """More thinking of a message; only if the graph has `show_thinking: true`."""

    type: Literal["thinking_delta"] = "thinking_delta"
    message_id: str
    delta: str


class MessageDiscarded(_Event):
    """All text and thinking of a message so far is discarded: the model was called again instead.

    What follows under the same id, if anything, counts.
    """

    type: Literal["message_discarded"] = "message_discarded"
    message_id: str


class Status(_Event):
    """What the run is doing; with `retrying`, which attempt begins, and in how many seconds."""

    type: Literal["status"] = "status"
    phase: Literal["thinking", "tool_use", "compacting", "retrying", "waiting"]
    label: str
    attempt: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    in_s: Annotated[float | None, LEFT_OUT_IF_NONE] = None


class Step(_Event):
    """An assistant turn has finished; `step_budget` is the run's `maxTurns`."""

    type: Literal["step"] = "step"
    step_index: int
    step_budget: int | None


class ToolCallStart(_Event):
    """The model calls a tool; `tool_name` is the tool's id."""

    type: Literal["tool_call_start"] = "tool_call_start"
    tool_call_id: str
    tool_name: str
    args: JsonValue
    is_client_tool: Annotated[bool, Field(exclude_if=_is_false)] = False
    """Whether the client executes it; `tool_name` is then the client's own name for the tool."""


class ToolCallResult(_Event):
    """A tool call has ended; `result` contains the fields that the tool shows to clients."""

    type: Literal["tool_call_result"] = "tool_call_result"
    tool_call_id: str
    result: JsonValue
    is_error: bool


class Citation(_Event):
    """The text before it in the message is based on this page; `cited_text` is an excerpt of it."""

    type: Literal["citation"] = "citation"
    message_id: str
    url: str
    title: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    cited_text: str


class FilesChanged(FileChanges, _Event):
    """What the run has changed in its workspace; once, before its end."""

    type: Literal["files_changed"] = "files_changed"


class AssistantFinal(_Event):
    """The answer; exactly once if the run succeeds."""

    type: Literal["assistant_final"] = "assistant_final"
    content: str
    structured_output: Any = None


class RunError(_Event):
    """Why the run did not succeed."""

    type: Literal["error"] = "error"
    error: ErrorCode
    budget: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    """The id of the budget that was reached."""
    resets_at: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    """When it can be spent again."""


class Done(_Event):
    """The end: exactly once, always last."""

    type: Literal["done"] = "done"
    usage: FinalUsage
    finish_reason: FinishReason
    context_used: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    """How many tokens the model's last prompt and answer have."""
    context_window: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    """How many they may have."""
    cached: SkipJsonSchema[Annotated[tuple[int, int] | None, LEFT_OUT_IF_NONE]] = None
    """As of `GraphFinal`; not for clients of our own wire."""


class UserMessageDelivered(_Event):
    """A message sent to the running agent has taken effect: what follows may answer it."""

    type: Literal["user_message"] = "user_message"
    message_id: str
    content: str
    """Its text, without images."""


class PermissionRequest(_Event):
    """A tool call waits for a person's decision; after `expires_at` it is denied."""

    type: Literal["permission_request"] = "permission_request"
    request_id: str
    tool_call_id: str
    tool_name: str
    args: JsonValue
    expires_at: str
    grantable: Annotated[bool, Field(exclude_if=_is_false)] = False
    """Whether the decision may be `allow_conversation`."""


class BudgetReached(_Event):
    """The run waits for a person to raise its limit of dollars; after `expires_at` it ends.

    How that was decided is a `permission_resolved` with its `request_id`. No event has an amount.
    """

    type: Literal["budget_reached"] = "budget_reached"
    request_id: str
    expires_at: str


class PermissionResolved(_Event):
    """A tool call, or a budget, no longer waits; `args` are set if the decision changed a call's arguments.

    `toolCallId` is set if it has not waited at all: an earlier decision was for the conversation.
    """

    type: Literal["permission_resolved"] = "permission_resolved"
    request_id: str
    decision: ConsentDecision
    reason: ResolvedBy
    args: Annotated[JsonValue, LEFT_OUT_IF_NONE] = None
    tool_call_id: Annotated[str | None, LEFT_OUT_IF_NONE] = None


class ClientToolCall(_Event):
    """A call of a client tool waits for the client's result; after `expires_at` it has failed."""

    type: Literal["client_tool_call"] = "client_tool_call"
    tool_call_id: str
    tool_name: str
    args: JsonValue
    expires_at: str


class QuestionOption(WireModel):
    """A choice; clients answer with its label."""

    label: str
    description: Annotated[str | None, LEFT_OUT_IF_NONE] = None


class QuestionItem(WireModel):
    """One question to a person, who may answer with a text of their own unless `only_options` is set."""

    question: str
    header: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    options: tuple[QuestionOption, ...]
    multi_select: bool
    only_options: Annotated[bool, Field(exclude_if=_is_false)] = False
    optional: Annotated[bool, Field(exclude_if=_is_false)] = False
    """Whether it may be left unanswered."""


GivenAnswers: TypeAlias = tuple[tuple[str, ...] | None, ...]
"""The answers to the questions of a request, in their order; None for one that is left unanswered."""


FROM_AGENT: Final = "agent"
"""The source of the agent's own questions; no MCP server may have this name."""


class QuestionAsked(_Event):
    """The agent asks a person, or the MCP server `source` does; after `expires_at` it cannot be answered."""

    type: Literal["question"] = "question"
    request_id: str
    source: str
    questions: tuple[QuestionItem, ...]
    expires_at: str
    tool_call_id: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    """The call of the agent that asks; None for the question of a server."""


class QuestionResolved(_Event):
    """A question no longer waits; `answers` are set if it was answered."""

    type: Literal["question_resolved"] = "question_resolved"
    request_id: str
    resolved_by: QuestionResolvedBy
    answers: Annotated[GivenAnswers | None, LEFT_OUT_IF_NONE] = None


class RunWarning(_Event):
    """The model does not get a part of what it could, or a denied tool call ends the run.

    `names` are those of what it is about.
    """

    type: Literal["warning"] = "warning"
    code: WarningCode
    message: str
    names: list[str]


class Interrupted(_Event):
    """The state of a request to stop the turn (`interrupt`) or the run (`cancel`)."""

    type: Literal["interrupted"] = "interrupted"
    kind: StopKind
    state: StopState


class UsageReport:
    """One message's usage, for billing. Never part of `ClientEvent`."""

    __slots__ = ("fact",)
    __match_args__ = ("fact",)

    def __init__(self, fact: UsageFact) -> None:
        self.fact = fact


class MeterReport:
    """The meters and failed tool calls of a part of the run; never part of `ClientEvent`."""

    __slots__ = ("meters", "tool_failures")
    __match_args__ = ("meters", "tool_failures")

    def __init__(self, meters: Meters, *, tool_failures: int) -> None:
        self.meters = meters
        self.tool_failures = tool_failures

    def plus(self, other: "MeterReport") -> "MeterReport":
        """This part and a later one, together."""
        failures = self.tool_failures + other.tool_failures
        return MeterReport(self.meters.plus(other.meters), tool_failures=failures)


OutputEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | MessageDiscarded
    | Status
    | Step
    | ToolCallStart
    | ToolCallResult
    | Citation
    | UserMessageDelivered
    | FilesChanged
    | AssistantFinal
    | RunWarning
)
"""The events that an executor produces for clients."""

ControlEvent: TypeAlias = (
    Queued
    | PermissionRequest
    | BudgetReached
    | PermissionResolved
    | QuestionAsked
    | QuestionResolved
    | ClientToolCall
    | Interrupted
    | RunWarning
    | Status
)
"""The events of a run that come from outside its executor's output."""

AiEvent: TypeAlias = OutputEvent | UsageReport | MeterReport
ClientEvent: TypeAlias = ControlEvent | RunStarted | OutputEvent | RunError | Done

CLIENT_EVENTS: TypeAdapter[ClientEvent] = TypeAdapter(
    Annotated[ClientEvent, Field(discriminator="type")],
)
"""Parses stored events."""
