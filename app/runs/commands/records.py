"""The commands that a running run accepts."""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, TypeAdapter

from app.ids import ApiKeyId
from app.platform.concurrency.offload import SMALL_BYTES
from app.requests.messages import Content, Message, Priority
from app.requests.run_request import PermissionMode
from app.requests.wire_models import WireModel


class Stop(WireModel):
    """Stop the run (`cancel`) or only its turn (`interrupt`)."""

    type: Literal["stop"] = "stop"
    kind: Literal["interrupt", "cancel"]
    after_tool: bool = False
    """Of an interruption: whether a tool that is at work may finish first."""
    is_stored: bool = False
    """Of a cancellation: whether it is in the database."""


class Send(WireModel):
    """Send a message to the agent."""

    type: Literal["send"] = "send"
    message_id: str
    content: Content
    priority: Priority

    @property
    def message(self) -> Message:
        # Its content has been validated, which takes long for images.
        return Message.model_construct(role="user", content=self.content)


class Decide(WireModel):
    """Allow or deny a waiting tool call."""

    type: Literal["decide"] = "decide"
    request_id: str
    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: str | None = None
    stop: bool = False
    grant_by: ApiKeyId | None = None
    """See `Decision`."""


class SubmitToolResult(WireModel):
    """Answer a call of a client tool."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    result: JsonValue
    is_error: bool = False


class AnswerQuestion(WireModel):
    """Answer a question, or with None decline to."""

    type: Literal["answer_question"] = "answer_question"
    request_id: str
    answers: dict[str, str | list[str]] | None


class ChangeMode(WireModel):
    """Change the permission mode."""

    type: Literal["change_mode"] = "change_mode"
    mode: PermissionMode
    may_loosen: bool = False
    """Whether the caller may approve tool calls, and so choose a less strict mode."""


_VALUE_BYTES = 8
"""What a value takes besides its text."""

Command = Stop | Send | Decide | SubmitToolResult | AnswerQuestion | ChangeMode
COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])


def size_of(command: Command) -> int:
    """About how many bytes a command has; above `SMALL_BYTES` it may be more."""
    match command:
        case Send():
            return command.message.size
        case Decide():
            return _size_of_json(command.args)
        case SubmitToolResult():
            return _size_of_json(command.result)
        case AnswerQuestion():
            return _size_of_json(command.answers)
        case _:
            return 0


def _size_of_json(value: object) -> int:
    size, left = 0, [value]
    while left and size <= SMALL_BYTES:
        match left.pop():
            case str() as text:
                size += len(text)
            case dict() as members:
                size += sum(map(len, members))
                left += members.values()
            case list() as items:
                left += items
            case _:
                pass
        size += _VALUE_BYTES
    return size
