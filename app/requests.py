"""The requests of clients and the final result of a run."""

import re
from datetime import datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, Self

import pybase64
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from app.ids import RESERVED_RUN_IDS, RUN_ID_PATTERN, STATE_KEY_PATTERN, RunId

GRAPH_ID_PATTERN = r"^[a-z][a-z0-9_]*:[A-Za-z0-9][A-Za-z0-9._-]*$"
GraphId = Annotated[str, Field(pattern=GRAPH_ID_PATTERN, max_length=200)]
"""`provider:name`, for example `claude_agents:assistant`."""


_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def _exact(value: object) -> object:
    plain_text = isinstance(value, str) and _DECIMAL.fullmatch(value)
    whole_number = isinstance(value, int) and not isinstance(value, bool)
    if not (plain_text or whole_number or isinstance(value, Decimal)):
        message = 'money is a decimal in quotes, for example "0.10"'
        raise ValueError(message)
    return value


Dollars = Annotated[Decimal, BeforeValidator(_exact), Field(max_digits=20, decimal_places=10)]
"""An exact amount; never a float."""

_WHOLE = {"type": "integer", "minimum": 1, "maximum": 9_999_999_999}
_ABOVE_ZERO = {"type": "string", "pattern": r"^([1-9][0-9]{0,9}(\.[0-9]{1,7})?|0\.[0-9]{0,6}[1-9])$"}
ABOVE_ZERO: dict[str, Any] = {"anyOf": [_ABOVE_ZERO, _WHOLE]}
"""The JSON schema of `Dollars` in the OpenAPI document."""

_PATH_BYTES = 1024
_NAME_BYTES = 255
_DELETE = 127


def relative_path(path: str) -> str:
    """The path if it is relative, normalized and stays below its directory; raises `ValueError`."""
    names = path.split("/")
    if any(name in {"", ".", ".."} for name in names):
        message = "must be relative, without empty parts, . and .."
        raise ValueError(message)
    if any(ord(char) < ord(" ") or ord(char) == _DELETE or char == "\\" for char in path):
        message = "must not contain control characters or backslashes"
        raise ValueError(message)
    if len(path.encode()) > _PATH_BYTES or any(len(name.encode()) > _NAME_BYTES for name in names):
        message = f"must not be longer than {_PATH_BYTES} bytes, and no part longer than {_NAME_BYTES}"
        raise ValueError(message)
    return path


FilePath = Annotated[str, AfterValidator(relative_path)]
"""A relative path in a workspace."""


def _not_reserved(run_id: str) -> str:
    if run_id in RESERVED_RUN_IDS:
        message = f"must not be {', '.join(sorted(RESERVED_RUN_IDS))}: these are paths"
        raise ValueError(message)
    return run_id


NewRunId = Annotated[str, Field(pattern=RUN_ID_PATTERN), AfterValidator(_not_reserved)]
"""A run id chosen by a client."""

ImageMediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
ErrorCode = Literal[
    "invalid_request",
    "not_found",
    "timeout",
    "aborted",
    "rate_limit",
    "internal",
    "insufficient_credits",
    "provider_unavailable",
    "database_unavailable",
]
"""Why a run did not succeed; clients get no other detail."""

FinishReason = Literal["stop", "max_turns", "budget", "timeout", "aborted", "error"]
RunStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]

OnConflict = Literal["reject", "enqueue", "interrupt"]
"""What a run does when its conversation is busy: fail, wait for its turn, or cancel the earlier runs."""

PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
"""Which tool calls of a run need approval.

`default` and `acceptEdits`: those the graph names; `plan`: the same, and only read-only tools may be
called; `dontAsk`: calls that need approval are denied; `bypassPermissions`: none.
"""

Priority = Literal["now", "next", "later"]
"""When a running agent gets a message: at once, interrupting its output; at the next opportunity; or
in a turn of its own."""


class WireModel(BaseModel):
    """camelCase in JSON, snake_case in Python; an unknown field is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
    )


class InputModel(WireModel):
    """A model of client input: accepts the JSON names only."""

    model_config = ConfigDict(validate_by_name=False)

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Create one by its Python names."""
        return cls.model_validate(fields, by_name=True, by_alias=False)


_NO_BASE64 = "is not valid base64"


def _decoded(data: str) -> bytes:
    try:
        # Ten times as fast as the standard library; an image may have 20 MB.
        return pybase64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(_NO_BASE64) from error


_BASE64: dict[str, Any] = {"format": "byte", "contentEncoding": "base64"}


class TextPart(InputModel):
    """A piece of text."""

    type: Literal["text"]
    text: str


class ImagePart(InputModel):
    """An image, base64 encoded."""

    type: Literal["image"]
    media_type: ImageMediaType
    data: Annotated[str, Field(json_schema_extra={**_BASE64, "minLength": 4})]

    @field_validator("data")
    @classmethod
    def _is_base64(cls, data: str) -> str:
        if not _decoded(data):
            message = "is empty"
            raise ValueError(message)
        return data


ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]
Content = Annotated[str, Field(min_length=1)] | Annotated[list[ContentPart], Field(min_length=1)]


class Message(InputModel):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Content

    @model_validator(mode="after")
    def _only_users_send_images(self) -> "Message":
        if self.role != "user" and any(part.type == "image" for part in self.parts):
            message = f"a message of role {self.role!r} may contain text only"
            raise ValueError(message)
        return self

    @property
    def parts(self) -> list[TextPart | ImagePart]:
        """The content as a list of parts."""
        if isinstance(self.content, str):
            return [TextPart(type="text", text=self.content)]
        return list(self.content)

    @property
    def size(self) -> int:
        """The approximate number of characters, images included."""
        if isinstance(self.content, str):
            return len(self.content)
        return sum(len(part.text if isinstance(part, TextPart) else part.data) for part in self.content)

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))


class SentMessage(NamedTuple):
    """A message for a running agent; `message_id` is a UUID that identifies it."""

    message_id: str
    message: Message
    priority: Priority


class ResponseFormat(InputModel):
    """The JSON schema the final answer must match."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class RunLimits(InputModel):
    """The limits of a run; a missing limit falls back to the graph's, then to the server's."""

    timeout_s: Annotated[float, Field(gt=0, le=86_400, strict=True)] | None = None
    max_turns: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    max_budget_usd: Annotated[Dollars, Field(gt=0), WithJsonSchema(ABOVE_ZERO)] | None = None
    max_total_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None

    def tightest(self, other: "RunLimits") -> "RunLimits":
        """The lower value of each limit; None only if both are None."""

        def lower(name: str) -> Any:
            both = [v for v in (getattr(self, name), getattr(other, name)) if v is not None]
            return min(both, default=None)

        return RunLimits.of(**{name: lower(name) for name in type(self).model_fields})


class UploadedFile(InputModel):
    """A file for the agent's workspace, base64 encoded."""

    path: FilePath
    data: Annotated[str, Field(json_schema_extra=_BASE64)]

    @field_validator("data")
    @classmethod
    def _is_base64(cls, data: str) -> str:
        _decoded(data)
        return data

    @property
    def content(self) -> bytes:
        """Its bytes."""
        return _decoded(self.data)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data) // 4 * 3 - self.data.count("=", -2)


class GraphRunRequest(InputModel):
    """The request to start a run."""

    run_id: NewRunId | None = None
    graph_id: GraphId
    messages: Annotated[list[Message], Field(min_length=1)]
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    tool_ids: list[str] | None = None
    state_key: Annotated[str, Field(pattern=STATE_KEY_PATTERN)] | None = None
    """The conversation that the run continues; created if there is none."""
    on_conflict: OnConflict = "enqueue"
    priority: Annotated[int, Field(ge=1, le=5, strict=True)] | None = None
    """From 1, the highest, to 5: which of the account's queued runs starts first; 3 by default."""
    start_after: AwareDatetime | None = None
    """The run is queued until then."""
    response_format: ResponseFormat | None = None
    limits: RunLimits = RunLimits()
    files: tuple[UploadedFile, ...] = ()
    """For graphs with native tools."""

    @property
    def size(self) -> int:
        """The approximate number of characters of its messages and files."""
        return sum(message.size for message in self.messages) + sum(len(file.data) for file in self.files)

    @field_validator("files")
    @classmethod
    def _distinct_paths(cls, files: tuple[UploadedFile, ...]) -> tuple[UploadedFile, ...]:
        paths = {file.path for file in files}
        if len(paths) < len(files):
            message = "contains a path twice"
            raise ValueError(message)
        if any(str(above) in paths for path in paths for above in PurePosixPath(path).parents):
            message = "uses a path both as a file and as a directory"
            raise ValueError(message)
        return files

    @field_validator("start_after")
    @classmethod
    def _not_in_a_conversation(cls, start_after: datetime | None, info: ValidationInfo) -> datetime | None:
        if start_after is not None and info.data.get("state_key") is not None:
            message = "cannot be combined with stateKey: the conversation's later runs would wait as well"
            raise ValueError(message)
        return start_after

    @field_validator("messages")
    @classmethod
    def _last_message_is_the_users(cls, messages: list[Message]) -> list[Message]:
        if messages[-1].role != "user":
            message = "the last message must be the user's"
            raise ValueError(message)
        return messages


class GenerateRequest(InputModel):
    """The request for one answer to one prompt: a run of one turn without tools."""

    run_id: NewRunId | None = None
    prompt: Annotated[str, Field(min_length=1)]
    system: Annotated[str, Field(min_length=1)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    role: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """A role that resolves to a model; instead of `model`."""
    limits: RunLimits = RunLimits()

    @field_validator("role")
    @classmethod
    def _role_or_model(cls, role: str | None, info: ValidationInfo) -> str | None:
        if role is not None and info.data.get("model") is not None:
            message = "a role selects the model: give either role or model"
            raise ValueError(message)
        return role


class GenerateTextRequest(GenerateRequest):
    """The request for a generated text."""

    stream: Annotated[bool, Field(strict=True)] = False
    """Whether to stream the run's events instead of returning its answer."""


class GenerateObjectRequest(GenerateRequest):
    """The request for a generated object."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class FinalUsage(WireModel):
    """Tokens of the whole run: `promptTokens` counts input, cache reads and cache writes."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class GraphFinal(WireModel):
    """How a run ended."""

    ok: bool
    run_id: RunId
    request_id: str | None
    content: str
    structured_output: Any = None
    error: ErrorCode | None = None
    finish_reason: FinishReason
    usage: FinalUsage

    @property
    def status(self) -> RunStatus:
        """The status of the run."""
        if self.ok:
            return "succeeded"
        return "cancelled" if self.error == "aborted" else "failed"
