"""The options of a run, and the body of its request."""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias, TypedDict

from pydantic.alias_generators import to_camel

from runtally.client_tools import ClientTool, body_of_tools


class Message(TypedDict):
    """A message of the conversation; `content` is a text or a list of parts, as in docs/api/runs.md."""

    role: Literal["user", "assistant", "system"]
    content: str | Sequence[Mapping[str, Any]]


Prompt: TypeAlias = str | Sequence[Message] | None
"""The prompt: one text, or messages of which the last one is the user's.

None only with `input`, or with `fork_from`: the messages of that run are answered again.
"""


class Limits(TypedDict, total=False):
    """The limits of a run; each can only lower the graph's and the server's."""

    timeout_s: float
    max_turns: int
    max_budget_usd: Decimal
    max_total_tokens: int
    cover_calls: bool


Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
"""How thoroughly a model works on each step."""


class RunOptions(TypedDict, total=False):
    """What a run can be started with; the meaning is in docs/api/runs.md."""

    run_id: str
    """Made by the client if omitted. Starting a run with the id of another joins that run."""
    input: Mapping[str, Any]
    """In place of a prompt: what the graph's own `input` describes."""
    model: str
    tool_ids: Sequence[str]
    state_key: str
    """The conversation that the run continues."""
    on_conflict: Literal["reject", "enqueue", "interrupt"]
    fork_from: str
    """The run of that conversation whose place this one takes."""
    on_disconnect: Literal["continue", "cancel"]
    priority: int
    start_after: datetime
    response_schema: Mapping[str, Any]
    """The JSON schema that the answer must match."""
    limits: Limits
    effort: Effort
    thinking_budget_tokens: int
    """0: no thinking."""
    task_budget: int
    """The tokens that the model is told to use for the run."""
    files: Mapping[str, bytes]
    """The contents of files for the agent's workspace, by their paths."""
    keep_open_s: float
    """For how long the run is kept open for another message after each answer."""
    client_tools: Sequence[ClientTool]
    """Tools that this program executes; for graphs that take them."""
    end_user: str
    """This program's id of the person that the run is for; on each receipt."""
    tags: Mapping[str, str]
    """Names and values by which usage is summed up; on each receipt."""
    metadata: Mapping[str, str]
    """Kept with the run."""


Priority: TypeAlias = Literal["now", "next", "later"]
"""When a running agent gets a message; see docs/api/control.md."""

GroupBy: TypeAlias = str
"""`hour`, `day`, `model`, `graph`, `provider`, `key`, `account`, `endUser`, or `tag:` and a tag's name."""


class DecisionOptions(TypedDict, total=False):
    """What a decision about a tool call can have; no value means the server's default."""

    args: dict[str, Any]
    """Replace the arguments of the model."""
    message: str
    """For the model."""
    stop: bool
    """Whether a denial ends the run."""
    for_conversation: bool
    """Whether later calls of the tool in the conversation are allowed, too."""


class ApprovalFilters(TypedDict, total=False):
    """What to list of all that waits; `kind` is `approval`, `question`, `client_tool` or `budget`."""

    kind: str
    graph_id: str
    run_id: str
    state_key: str


class RunFilters(TypedDict, total=False):
    """Which runs to list; `since` is inclusive and `until` exclusive, by the time of acceptance."""

    status: str
    """`queued`, `running`, `waiting`, `succeeded`, `failed` or `cancelled`."""
    graph_id: str
    model: str
    api_key_id: str
    state_key: str
    end_user: str
    tag: str
    """Name and value: `team:search`."""
    since: datetime
    until: datetime


class ConversationFilters(TypedDict, total=False):
    """Which conversations to list; `since` is inclusive and `until` exclusive, by their last use."""

    q: str
    """Words in the title, a message or an answer: all of them, `"a phrase"`, `or`, `-without`."""
    pinned: bool
    archived: bool
    end_user: str
    tag: str
    """Name and value: `team:search`."""
    since: datetime
    until: datetime


class ReceiptFilters(TypedDict, total=False):
    """Which receipts to list; `since` is inclusive and `until` exclusive, by the time of use."""

    run_id: str
    graph_id: str
    model: str
    api_key_id: str
    basis: str
    origin: str
    cache_miss: str
    since: datetime
    until: datetime


class UsageOptions(TypedDict, total=False):
    """Which receipts to sum up, and by what."""

    group_by: GroupBy
    split_by: GroupBy
    top: int
    time_zone: str
    graph_id: str
    model: str
    api_key_id: str
    since: datetime
    until: datetime


_OTHERS = {"run_id", "start_after", "response_schema", "limits", "files", "client_tools"}
"""Those of a run that its request does not have as they are."""


def body_of(run_id: str, graph: str, prompt: Prompt, *, options: RunOptions) -> dict[str, Any]:
    """The JSON of a run's request; raises `TypeError` for unknown options."""
    given: dict[str, Any] = dict(options)
    _refuse_unknown(given, RunOptions)
    body: dict[str, Any] = {"runId": run_id, "graphId": graph, **_messages(prompt, given)}
    body |= {to_camel(name): value for name, value in given.items() if name not in _OTHERS}
    if "tool_ids" in given:
        body["toolIds"] = list(given["tool_ids"])
    if "start_after" in given:
        body["startAfter"] = moment(given["start_after"])
    if "response_schema" in given:
        body["responseFormat"] = {"type": "json_schema", "schema": given["response_schema"]}
    if "limits" in given:
        body["limits"] = _limits(dict(given["limits"]))
    if "files" in given:
        files = given["files"].items()
        body["files"] = [{"path": path, "data": base64.b64encode(data).decode()} for path, data in files]
    if "client_tools" in given:
        body["clientTools"] = body_of_tools(given["client_tools"])
    return body


def decision_body(options: DecisionOptions, *, allow: bool) -> dict[str, Any]:
    """The JSON of a decision; raises `TypeError` for unknown options."""
    given: dict[str, Any] = dict(options)
    _refuse_unknown(given, DecisionOptions)
    allowed = "allow_conversation" if given.pop("for_conversation", False) else "allow"
    return {"decision": allowed if allow else "deny", **given}


def moment(at: datetime) -> str:
    """A time as the server reads it; raises `ValueError` for one without a time zone."""
    if at.tzinfo is None:
        raise ValueError(f"a time needs a time zone, for example datetime.now(UTC): {at!r}")
    return at.isoformat()


def _messages(prompt: Prompt, given: Mapping[str, Any]) -> dict[str, Any]:
    if prompt is None:
        if "input" not in given and "fork_from" not in given:
            raise TypeError("a run needs a prompt, an input, or fork_from: the run that is answered again")
        return {}
    return {"messages": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)}


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    _refuse_unknown(given, Limits)
    limits = {to_camel(name): limit for name, limit in given.items()}
    if isinstance(limits.get("maxBudgetUsd"), Decimal):
        limits["maxBudgetUsd"] = f"{limits['maxBudgetUsd']:f}"
    return limits


def _refuse_unknown(given: Mapping[str, Any], options: Any) -> None:
    known = options.__annotations__
    if unknown := given.keys() - known.keys():
        raise TypeError(f"unknown option {min(unknown)!r}; known are {', '.join(sorted(known))}")
