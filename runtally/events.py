"""The events of a run, as a reader gets them. What a newer server adds is kept and is never an error."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, ValidationError

from runtally.model import Model
from runtally.types import FileChanges, FinalUsage


class _Event(Model):
    parent_tool_call_id: str | None = None
    """The tool call whose subagent this event belongs to."""
    at: datetime | None = None
    """When it was produced; None from a server that does not send it."""


class Queued(_Event):
    """The run has to wait; `position` counts the runs that wait, itself included."""

    type: Literal["queued"] = "queued"
    position: int


class RunStarted(_Event):
    """The run starts."""

    type: Literal["run_started"] = "run_started"
    run_id: str
    graph_id: str
    model: str
    attempt: int


class TextDelta(_Event):
    """More text of a message."""

    type: Literal["text_delta"] = "text_delta"
    message_id: str
    delta: str


class ThinkingDelta(_Event):
    """More thinking of a message."""

    type: Literal["thinking_delta"] = "thinking_delta"
    message_id: str
    delta: str


class MessageDiscarded(_Event):
    """All text and thinking of this message so far is discarded: the model writes it again."""

    type: Literal["message_discarded"] = "message_discarded"
    message_id: str


class Status(_Event):
    """What the run is doing: `phase` is `thinking`, `tool_use`, `compacting`, `retrying` or `waiting`."""

    type: Literal["status"] = "status"
    phase: str
    label: str
    attempt: int | None = None
    in_s: float | None = None


class Step(_Event):
    """A turn of the model has ended; `step_budget` is the limit of turns."""

    type: Literal["step"] = "step"
    step_index: int
    step_budget: int | None


class ToolCallStart(_Event):
    """The model calls a tool; `tool_name` is the tool's id."""

    type: Literal["tool_call_start"] = "tool_call_start"
    tool_call_id: str
    tool_name: str
    args: Any
    is_client_tool: bool = False
    """Whether the client executes it; a `ClientToolCall` follows."""


class ToolCallResult(_Event):
    """A tool call has ended; `result` has the fields that the tool shows to clients."""

    type: Literal["tool_call_result"] = "tool_call_result"
    tool_call_id: str
    result: Any
    is_error: bool


class UserMessageDelivered(_Event):
    """A message that was sent to the running agent has taken effect."""

    type: Literal["user_message"] = "user_message"
    message_id: str
    content: str


class PermissionRequest(_Event):
    """A tool call waits for a decision; it is denied at `expires_at`."""

    type: Literal["permission_request"] = "permission_request"
    request_id: str
    tool_call_id: str
    tool_name: str
    args: Any
    expires_at: datetime
    grantable: bool = False


class BudgetReached(_Event):
    """The run waits for a higher limit of dollars; decide with `args={"maxBudgetUsd": ...}` to go on."""

    type: Literal["budget_reached"] = "budget_reached"
    request_id: str
    expires_at: datetime


class PermissionResolved(_Event):
    """A tool call no longer waits: `decision` is `allow`, `deny` or `allow_conversation`.

    `args` if they were changed; `tool_call_id` of a call that an earlier `allow_conversation` allowed.
    """

    type: Literal["permission_resolved"] = "permission_resolved"
    request_id: str
    decision: str
    reason: str
    args: Any = None
    tool_call_id: str | None = None


class ClientToolCall(_Event):
    """A call of a client tool waits for its result; it has failed at `expires_at`."""

    type: Literal["client_tool_call"] = "client_tool_call"
    tool_call_id: str
    tool_name: str
    args: Any
    expires_at: datetime


class QuestionOption(Model):
    """A choice, answered by its label."""

    label: str
    description: str | None = None


class QuestionItem(Model):
    """One question; any text answers it unless `only_options` is set. `optional` ones may be left out."""

    question: str
    header: str | None = None
    options: list[QuestionOption]
    multi_select: bool
    only_options: bool = False
    optional: bool = False


class QuestionAsked(_Event):
    """The agent, or the MCP server `source`, asks a person; it fails at `expires_at`."""

    type: Literal["question"] = "question"
    request_id: str
    source: str
    questions: list[QuestionItem]
    expires_at: datetime
    tool_call_id: str | None = None


class QuestionResolved(_Event):
    """A question no longer waits: `resolved_by` is `answered`, `declined`, `expired` or `run_stopped`."""

    type: Literal["question_resolved"] = "question_resolved"
    request_id: str
    resolved_by: str
    answers: list[list[str] | None] | None = None


class RunWarning(_Event):
    """Something is left out, such as tools that the graph does not take."""

    type: Literal["warning"] = "warning"
    code: str
    message: str
    names: list[str]


class Interrupted(_Event):
    """The state of a request to stop the turn (`interrupt`) or the run (`cancel`)."""

    type: Literal["interrupted"] = "interrupted"
    kind: str
    state: str


class Citation(_Event):
    """The text before it in the message is based on this page; `cited_text` is an excerpt of the page."""

    type: Literal["citation"] = "citation"
    message_id: str
    url: str
    title: str | None = None
    cited_text: str


class FilesChanged(FileChanges, _Event):
    """What the run has changed in its workspace; once, before its end."""

    type: Literal["files_changed"] = "files_changed"


class AssistantFinal(_Event):
    """The answer; once, if the run succeeds."""

    type: Literal["assistant_final"] = "assistant_final"
    content: str
    structured_output: Any = None


class RunError(_Event):
    """Why the run did not succeed."""

    type: Literal["error"] = "error"
    error: str
    budget: str | None = None
    """The id of the budget that was reached."""
    resets_at: str | None = None
    """When it can be spent again."""


class Done(_Event):
    """The end; once, always last."""

    type: Literal["done"] = "done"
    usage: FinalUsage
    finish_reason: str
    context_used: int | None = None
    context_window: int | None = None


class UnknownEvent(Model):
    """An event of a type, or with fields, that this client does not know."""

    type: str
    data: Annotated[dict[str, Any], Field(repr=False)]
    """All its fields, with the names of the JSON."""


Event: TypeAlias = (
    Queued
    | RunStarted
    | TextDelta
    | ThinkingDelta
    | MessageDiscarded
    | Status
    | Step
    | ToolCallStart
    | ToolCallResult
    | Citation
    | UserMessageDelivered
    | PermissionRequest
    | BudgetReached
    | PermissionResolved
    | QuestionAsked
    | QuestionResolved
    | ClientToolCall
    | RunWarning
    | Interrupted
    | FilesChanged
    | AssistantFinal
    | RunError
    | Done
    | UnknownEvent
)

_KNOWN: tuple[type[_Event], ...] = (
    *(Queued, RunStarted, TextDelta, ThinkingDelta, MessageDiscarded, Status, Step),
    *(ToolCallStart, ToolCallResult, Citation, FilesChanged),
    *(
        UserMessageDelivered,
        PermissionRequest,
        BudgetReached,
        PermissionResolved,
        Interrupted,
        AssistantFinal,
    ),
    *(RunError, Done, ClientToolCall, RunWarning, QuestionAsked, QuestionResolved),
)
EVENT_TYPES: dict[str, type[Any]] = {known.model_fields["type"].default: known for known in _KNOWN}
"""The class of each type of events that this client knows."""


def event_of(kind: str, data: dict[str, Any]) -> Event:
    """The event with this `event` and `data`."""
    known = EVENT_TYPES.get(kind)
    if known is not None:
        try:
            event: Event = known.model_validate(data)
        except ValidationError:
            return UnknownEvent(type=kind, data=data)
        return event
    return UnknownEvent(type=kind, data=data)
