"""GraphRunRequest: the request that starts a run."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from app.ids import RESERVED_RUN_IDS, RUN_ID_PATTERN, STATE_KEY_PATTERN
from app.requests.attachments import decoded, size_of_base64, standard_base64
from app.requests.attribution import Attributed
from app.requests.client_tools import ClientTools
from app.requests.dollars import ABOVE_ZERO, Dollars
from app.requests.file_paths import FilePath, require_distinct
from app.requests.given_messages import MAY_BE_OMITTED, given_or_repeated, require_users_last
from app.requests.messages import BASE64, Message
from app.requests.wire_models import InputModel, UtcMoment

GRAPH_ID_PATTERN = r"^[a-z][a-z0-9_]*:[A-Za-z0-9][A-Za-z0-9._-]*$"
GraphId = Annotated[str, Field(pattern=GRAPH_ID_PATTERN, max_length=200)]
"""`provider:name`, for example `claude_agents:assistant`."""


def _not_reserved(run_id: str) -> str:
    if run_id in RESERVED_RUN_IDS:
        raise ValueError(f"must not be {', '.join(sorted(RESERVED_RUN_IDS))}: these are paths")
    return run_id


NewRunId = Annotated[str, Field(pattern=RUN_ID_PATTERN), AfterValidator(_not_reserved)]
"""A run id chosen by a client."""


OnConflict = Literal["reject", "enqueue", "interrupt"]
"""What a run does when its conversation is busy: fail, wait for its turn, or cancel the earlier runs."""

OnDisconnect = Literal["continue", "cancel"]
"""What a run does when its last reader has disconnected, and none returned in time."""

PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
"""Which tool calls of a run need approval.

`default`: those of which a rule of the graph asks; `acceptEdits`: the same without edits of files in the
workspace; `plan`: the same as `default`, and only read-only tools may be called; `dontAsk`: calls that need
approval are denied; `bypassPermissions`: none. What a rule denies is denied in each.
"""

Effort = Literal["low", "medium", "high", "xhigh", "max"]
"""How thoroughly a model works on each step."""

LEAST_THINKING = 1_024
"""The smallest thinking budget that the provider takes, in tokens."""

TaskBudget = Annotated[int, Field(ge=20_000, le=10_000_000, strict=True)]
"""The tokens that the model is told to use for all of a run; the provider takes no smaller number."""

KeepOpen = Annotated[float, Field(gt=0, le=3_600, strict=True)]
"""The seconds for which a run is kept open for another message after each answer."""

_Checked = Annotated[list[Message], BeforeValidator(given_or_repeated), AfterValidator(require_users_last)]


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
    cover_calls: Literal[True] | None = None
    """True: a call of the model is refused if it may cost more than what is left of `maxBudgetUsd`."""

    def tightest(self, other: "RunLimits") -> "RunLimits":
        """The lower value of each limit; None only if both are None."""

        def lower(name: str) -> Any:
            both = [v for v in (getattr(self, name), getattr(other, name)) if v is not None]
            return min(both, default=None)

        return RunLimits.of(**{name: lower(name) for name in type(self).model_fields})


_NOTHING_OR_ENOUGH: Final = {
    "anyOf": [
        {"type": "integer", "const": 0},
        {"type": "integer", "minimum": LEAST_THINKING, "maximum": 30_000},
        {"type": "null"},
    ]
}


def _nothing_or_enough(budget: int | None) -> int | None:
    if budget is not None and 0 < budget < LEAST_THINKING:
        raise ValueError(f"must be 0 or at least {LEAST_THINKING}")
    return budget


class ModelChoices(InputModel):
    """What a request may choose of a model's options; each can only lower what the graph allows."""

    effort: Effort | None = None
    thinking_budget_tokens: Annotated[
        Annotated[int, Field(ge=0, le=30_000, strict=True)] | None,
        AfterValidator(_nothing_or_enough),
        WithJsonSchema(_NOTHING_OR_ENOUGH),
    ] = None
    """0: no thinking."""
    task_budget: TaskBudget | None = None


class UploadedFile(InputModel):
    """A file for the agent's workspace, base64 encoded."""

    path: FilePath
    data: Annotated[str, Field(json_schema_extra=BASE64)]

    @field_validator("data")
    @classmethod
    def _is_base64(cls, data: str) -> str:
        return standard_base64(data)

    @property
    def content(self) -> bytes:
        return decoded(self.data)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return size_of_base64(self.data)


class GraphRunRequest(ModelChoices, Attributed):
    """The request to start a run."""

    run_id: NewRunId | None = None
    graph_id: GraphId
    state_key: Annotated[str, Field(pattern=STATE_KEY_PATTERN)] | None = None
    """The conversation that the run continues; created if there is none."""
    fork_from: Annotated[str, Field(pattern=RUN_ID_PATTERN)] | None = None
    """The run whose place this one takes: it and everything after it stay on the earlier branch."""
    input: dict[str, Any] | None = None
    """In place of messages: what the graph's own `input` describes."""
    messages: Annotated[_Checked, MAY_BE_OMITTED]
    """With `input`, that as a text. Empty only if `forkFrom` is given without an input: the run gets those of
    that run (`runs/requests/repeated.py`)."""
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
    keep_open_s: KeepOpen | None = None
    """At most as long as the graph says."""
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
            raise ValueError("needs stateKey: the conversation of that run")
        return fork_from

    @field_validator("start_after")
    @classmethod
    def _not_in_a_conversation(cls, start_after: datetime | None, info: ValidationInfo) -> datetime | None:
        if start_after is not None and info.data.get("state_key") is not None:
            message = "cannot be combined with stateKey: the conversation's later runs would wait as well"
            raise ValueError(message)
        return start_after
