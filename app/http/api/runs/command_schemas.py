"""JSON of commands to running runs."""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationInfo, field_validator

from app.events import ConsentDecision
from app.executors.waiting.questions import MAX_ANSWER_CHARS
from app.http.response_model import ResponseModel
from app.requests.messages import NewContent, Priority
from app.requests.run_request import PermissionMode
from app.requests.wire_models import InputModel
from app.runs.feedback.records import Rating


class MessageToRun(InputModel):
    """A message to a running agent."""

    content: NewContent
    priority: Priority = "next"


class SentToRun(ResponseModel):
    """An accepted message; `position` is that of its `user_message` event, null until there is one."""

    run_id: str
    message_id: str
    position: int | None


class Interruption(InputModel):
    """When the current turn stops: at once, or once a tool that is at work has finished."""

    after: Literal["tool"] | None = None


class PermissionDecision(InputModel):
    """A person's decision on a `permission_request`.

    `allow_conversation` also allows later calls of the tool in the conversation. `args` replace the tool
    call's arguments; `message` is for the model; `stop`: a denial ends the run.
    """

    decision: ConsentDecision
    args: dict[str, Any] | None = None
    message: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    stop: Annotated[bool, Field(strict=True)] = False

    @field_validator("stop")
    @classmethod
    def _only_with_a_denial(cls, stop: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic's
        if stop and info.data.get("decision", "deny") != "deny":
            raise ValueError("is only for a denial")
        return stop


class DecidedPermission(ResponseModel):
    """A permission request and its decision."""

    run_id: str
    request_id: str
    decision: ConsentDecision


class ToolResultOfClient(InputModel):
    """The result of a call that the client has executed; with `isError`, why it could not."""

    result: JsonValue
    is_error: Annotated[bool, Field(strict=True)] = False


class SubmittedToolResult(ResponseModel):
    """An accepted result; the `tool_call_result` event follows."""

    run_id: str
    tool_call_id: str


_AnswerText = Annotated[str, Field(min_length=1, max_length=MAX_ANSWER_CHARS)]
_Answer = _AnswerText | Annotated[list[_AnswerText], Field(max_length=64)]


class QuestionAnswers(InputModel):
    """A person's answers to a `question`, each by the text of its question or by its index.

    An answer is an option's `label`, a list of them where `multiSelect` is set, or any other text. Null
    declines to answer.
    """

    answers: Annotated[dict[str, _Answer], Field(max_length=64)] | None


class AnsweredQuestion(ResponseModel):
    """An accepted answer; the `question_resolved` event follows."""

    run_id: str
    request_id: str


class FeedbackRequest(InputModel):
    """What a person thinks of the answer of a run; it replaces what was said before."""

    rating: Rating
    note: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None


class RunChange(InputModel):
    """The settings of a running run that can be changed."""

    permission_mode: PermissionMode


class ChangedRun(ResponseModel):
    """The changed settings."""

    run_id: str
    permission_mode: PermissionMode
