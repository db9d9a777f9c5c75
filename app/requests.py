"""The requests of clients and the final result of a run."""

from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import (
    AfterValidator,
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

from app.client_tools.declared import ClientTools
from app.ids import RESERVED_RUN_IDS, RUN_ID_PATTERN, STATE_KEY_PATTERN, RunId
from app.request_fields.attachments import (
    MAX_TITLE_CHARS,
    PART_CHARS,
    TEXT,
    DocumentMediaType,
    ImageMediaType,
    decoded,
    require_content,
    require_one_source,
    require_pdf,
    require_text,
    require_url,
    size_of_base64,
)
from app.request_fields.dollars import ABOVE_ZERO, Dollars
from app.request_fields.file_paths import FilePath, require_distinct
from app.request_fields.given_messages import MAY_BE_OMITTED, given_or_repeated, require_users_last
from app.request_fields.moments import UtcMoment

GRAPH_ID_PATTERN = r"^[a-z][a-z0-9_]*:[A-Za-z0-9][A-Za-z0-9._-]*$"
GraphId = Annotated[str, Field(pattern=GRAPH_ID_PATTERN, max_length=200)]
"""`provider:name`, for example `claude_agents:assistant`."""


def _not_reserved(run_id: str) -> str:
    if run_id in RESERVED_RUN_IDS:
        message = f"must not be {', '.join(sorted(RESERVED_RUN_IDS))}: these are paths"
        raise ValueError(message)
    return run_id


NewRunId = Annotated[str, Field(pattern=RUN_ID_PATTERN), AfterValidator(_not_reserved)]
"""A run id chosen by a client."""


ErrorCode = Literal[
    "invalid_request",
    "not_found",
    "timeout",
    "aborted",
    "rate_limit",
    "internal",
    "insufficient_credits",
    "provider_unavailable",
    "tool_server_unavailable",
    "database_unavailable",
]
"""Why a run did not succeed; clients get no other detail."""

FinishReason = Literal["stop", "max_turns", "budget", "timeout", "aborted", "error"]
RunStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]

OnConflict = Literal["reject", "enqueue", "interrupt"]
"""What a run does when its conversation is busy: fail, wait for its turn, or cancel the earlier runs."""

OnDisconnect = Literal["continue", "cancel"]
"""What a run does when its last reader has disconnected, and none returned in time."""

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


_BASE64: dict[str, Any] = {"format": "byte", "contentEncoding": "base64"}
_Data = Annotated[str, Field(json_schema_extra={**_BASE64, "minLength": 4})]
_Url = Annotated[str, AfterValidator(require_url), Field(json_schema_extra={"format": "uri"})]


class TextPart(InputModel):
    """A piece of text."""

    type: Literal["text"]
    text: str

    @property
    def chars(self) -> int:
        """Its length."""
        return len(self.text)


class ImagePart(InputModel):
    """An image: base64 encoded with its media type, or by a URL that only the provider opens."""

    type: Literal["image"]
    media_type: ImageMediaType | None = None
    data: _Data | None = None
    url: _Url | None = None

    @field_validator("data")
    @classmethod
    def _is_base64(cls, data: str | None) -> str | None:
        if data is not None:
            require_content(data)
        return data

    @model_validator(mode="after")
    def _is_one(self) -> "ImagePart":
        require_one_source(self.media_type, data=self.data, url=self.url)
        return self

    @property
    def chars(self) -> int:
        """The length of its content in a request."""
        return len(self.data or "")

    @property
    def size(self) -> int:
        """The number of bytes; 0 of one by URL."""
        return size_of_base64(self.data or "")


class DocumentPart(InputModel):
    """A PDF or a plain text: base64 encoded with its media type, as `text`, or a PDF by its URL."""

    type: Literal["document"]
    media_type: DocumentMediaType | None = None
    data: _Data | None = None
    text: Annotated[str, Field(min_length=1)] | None = None
    url: _Url | None = None
    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS)] | None = None

    @field_validator("data")
    @classmethod
    def _is_of_its_type(cls, data: str | None, info: ValidationInfo) -> str | None:
        if data is not None:
            match info.data.get("media_type"):
                case "application/pdf":
                    require_pdf(data)
                case "text/plain":
                    require_text(data)
                case _:
                    require_content(data)
        return data

    @model_validator(mode="after")
    def _is_one(self) -> "DocumentPart":
        require_one_source(self.media_type, data=self.data, url=self.url, text=self.text)
        return self

    @property
    def content(self) -> str | None:
        """The text of a plain text; None for a PDF."""
        is_text = self.data is not None and self.media_type == TEXT
        return require_text(self.data or "") if is_text else self.text

    @property
    def chars(self) -> int:
        """The length of its content in a request."""
        return len(self.data or self.text or "")

    @property
    def size(self) -> int:
        """The number of bytes; 0 of one by URL."""
        return len(self.text.encode()) if self.text is not None else size_of_base64(self.data or "")


Attachment: TypeAlias = ImagePart | DocumentPart
ContentPart = Annotated[TextPart | ImagePart | DocumentPart, Field(discriminator="type")]
Content = Annotated[str, Field(min_length=1)] | Annotated[list[ContentPart], Field(min_length=1)]


class Message(InputModel):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Content

    @model_validator(mode="after")
    def _only_users_attach(self) -> "Message":
        if self.role != "user" and self.attachments:
            message = f"a message of role {self.role!r} may contain text only"
            raise ValueError(message)
        return self

    @property
    def parts(self) -> list[TextPart | ImagePart | DocumentPart]:
        """The content as a list of parts."""
        if isinstance(self.content, str):
            return [TextPart(type="text", text=self.content)]
        return list(self.content)

    @property
    def size(self) -> int:
        """The approximate number of characters, attachments included."""
        return sum(PART_CHARS + part.chars for part in self.parts)

    @property
    def attachments(self) -> list[Attachment]:
        """Its images and documents, in order."""
        return [part for part in self.parts if not isinstance(part, TextPart)]

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))


_Checked = Annotated[list[Message], BeforeValidator(given_or_repeated), AfterValidator(require_users_last)]


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
        decoded(data)
        return data

    @property
    def content(self) -> bytes:
        """Its bytes."""
        return decoded(self.data)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return size_of_base64(self.data)


class GraphRunRequest(InputModel):
    """The request to start a run."""

    run_id: NewRunId | None = None
    graph_id: GraphId
    state_key: Annotated[str, Field(pattern=STATE_KEY_PATTERN)] | None = None
    """The conversation that the run continues; created if there is none."""
    fork_from: Annotated[str, Field(pattern=RUN_ID_PATTERN)] | None = None
    """The run whose place this one takes: it and everything after it stay on the earlier branch."""
    messages: Annotated[_Checked, MAY_BE_OMITTED]
    """Empty only if `forkFrom` is given: the run gets those of that run (`runs/requests/repeated.py`)."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    tool_ids: list[str] | None = None
    on_conflict: OnConflict = "enqueue"
    priority: Annotated[int, Field(ge=1, le=5, strict=True)] | None = None
    """From 1, the highest, to 5: which of the account's queued runs starts first; 3 by default."""
    start_after: UtcMoment | None = None
    """The run is queued until then."""
    response_format: ResponseFormat | None = None
    limits: RunLimits = RunLimits()
    files: tuple[UploadedFile, ...] = ()
    """For graphs with native tools."""
    on_disconnect: OnDisconnect | None = None
    """`continue` by default. A run that never had a reader is not cancelled."""
    client_tools: ClientTools = ()
    """Tools that the client executes; for graphs that take them."""

    @property
    def size(self) -> int:
        """The approximate number of characters of its messages, files and client tools."""
        tools = sum(tool.size for tool in self.client_tools)
        files = sum(len(file.data) for file in self.files)
        return sum(message.size for message in self.messages) + files + tools

    @field_validator("files")
    @classmethod
    def _distinct_paths(cls, files: tuple[UploadedFile, ...]) -> tuple[UploadedFile, ...]:
        require_distinct([file.path for file in files])
        return files

    @field_validator("fork_from")
    @classmethod
    def _in_a_conversation(cls, fork_from: str | None, info: ValidationInfo) -> str | None:
        if fork_from is not None and info.data.get("state_key") is None:
            message = "needs stateKey: the conversation of that run"
            raise ValueError(message)
        return fork_from

    @field_validator("start_after")
    @classmethod
    def _not_in_a_conversation(cls, start_after: datetime | None, info: ValidationInfo) -> datetime | None:
        if start_after is not None and info.data.get("state_key") is not None:
            message = "cannot be combined with stateKey: the conversation's later runs would wait as well"
            raise ValueError(message)
        return start_after


class FinalUsage(WireModel):
    """Tokens of the whole run: `promptTokens` counts input, cache reads and cache writes."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


def _is_none(value: object) -> bool:
    return value is None


_Tokens = Annotated[int | None, Field(exclude_if=_is_none)]


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
    context_used: _Tokens = None
    """How long the conversation is for the model: the tokens of its last prompt and answer."""
    context_window: _Tokens = None
    """How long it may be, if that is known."""

    @property
    def status(self) -> RunStatus:
        """The status of the run."""
        if self.ok:
            return "succeeded"
        return "cancelled" if self.error == "aborted" else "failed"
