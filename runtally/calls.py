"""Call: a request to the API and how its response is read. Both clients send the same calls."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx

from runtally.connection import json_of, require_success
from runtally.errors import InvalidResponse
from runtally.model import ModelT, read
from runtally.options import moment
from runtally.types import (
    Balance,
    Conversation,
    ConversationMessage,
    Graph,
    GraphFinal,
    LanguageModel,
    Page,
    Receipt,
    Run,
    RunFile,
    SentMessage,
    StartedRun,
    ToolDescription,
    UsageReport,
)

T = TypeVar("T")
Priority: TypeAlias = Literal["now", "next", "later"]
GroupBy: TypeAlias = Literal["day", "model", "graph", "key"]


class ReceiptFilters(TypedDict, total=False):
    """Which receipts to list; `since` is inclusive and `until` exclusive, by the time of use."""

    run_id: str
    graph_id: str
    model: str
    api_key_id: str
    basis: str
    origin: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request; `repeatable` if the server may get it twice."""

    method: str
    path: str
    parse: Callable[[Any], T]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    is_json: bool = True
    """Whether the response is JSON; the bytes of any other are parsed."""

    def options(self) -> dict[str, Any]:
        """The arguments of httpx."""
        headers = dict(self.headers)
        content = None
        if self.body is not None:
            # In ASCII: the server can then refuse what cannot be encoded, with the name of its field.
            content = json.dumps(self.body, allow_nan=False).encode("ascii")
            headers["Content-Type"] = "application/json"
        return {"params": dict(self.query), "content": content, "headers": headers}

    def result(self, response: httpx.Response) -> T:
        """What the response contains; raises `ApiError` or `InvalidResponse`."""
        require_success(response)
        if not self.is_json:
            return self.parse(response.content)
        return self.parse(json_of(response) if response.content else None)


def start_run(body: dict[str, Any]) -> Call[StartedRun]:
    """Start a run, or join the one with its id."""
    return Call(method="POST", path="/v1/runs", body=body, parse=_one(StartedRun))


def stream_run(body: dict[str, Any]) -> Call[None]:
    """Start a run, or join the one with its id, and stream its events from the first."""
    return Call(
        method="POST", path="/v1/runs/stream", body=body, headers=_EVENTS, parse=_nothing, repeatable=True
    )


def wait_for_run(body: dict[str, Any]) -> Call[GraphFinal]:
    """Start a run, or join the one with its id, and respond when it has ended."""
    return Call(method="POST", path="/v1/runs/wait", body=body, parse=_one(GraphFinal))


def stream_run_events(run_id: str, *, after: int) -> Call[None]:
    """Stream a run's events after a position."""
    headers = {**_EVENTS, "Last-Event-ID": str(after)} if after else _EVENTS
    return Call(method="GET", path=f"{_run(run_id)}/events", headers=headers, parse=_nothing)


def get_run(run_id: str) -> Call[Run]:
    """The state of a run."""
    return Call(method="GET", path=_run(run_id), parse=_one(Run))


def list_runs(cursor: str | None) -> Call[Page[Run]]:
    """A page of runs."""
    return _list("/v1/runs", Run, cursor)


def cancel_run(run_id: str) -> Call[StartedRun]:
    """Cancel a run."""
    return Call(method="POST", path=f"{_run(run_id)}/cancel", parse=_one(StartedRun))


def interrupt_run(run_id: str) -> Call[StartedRun]:
    """Stop the current turn of a run."""
    return Call(method="POST", path=f"{_run(run_id)}/interrupt", parse=_one(StartedRun))


def send_message(run_id: str, text: str, *, priority: Priority) -> Call[SentMessage]:
    """Send a message to a running agent; the key makes a repeated request the same message."""
    return Call(
        method="POST",
        path=f"{_run(run_id)}/messages",
        body={"content": text, "priority": priority},
        headers={"Idempotency-Key": str(uuid4())},
        parse=_one(SentMessage),
    )


def decide_permission(
    run_id: str, request_id: str, *, allow: bool, args: Mapping[str, Any] | None, message: str | None
) -> Call[None]:
    """Decide on a tool call that waits for consent."""
    body: dict[str, Any] = {"decision": "allow" if allow else "deny"}
    body |= {} if args is None else {"args": dict(args)}
    body |= {} if message is None else {"message": message}
    path = f"{_run(run_id)}/permissions/{_segment(request_id)}"
    return Call(method="POST", path=path, body=body, parse=_nothing)


def list_receipts(filters: ReceiptFilters, cursor: str | None) -> Call[Page[Receipt]]:
    """A page of receipts."""
    return _list("/v1/receipts", Receipt, cursor, _query(filters))


def list_run_receipts(run_id: str) -> Call[Page[Receipt]]:
    """The receipts of a run, all on one page."""
    return Call(method="GET", path=f"{_run(run_id)}/receipts", parse=_page(Receipt))


def get_usage(options: UsageOptions) -> Call[UsageReport]:
    """Sums over receipts."""
    return Call(method="GET", path="/v1/usage", query=_query(options), parse=_one(UsageReport))


def get_balance() -> Call[Balance]:
    """The account's credit."""
    return Call(method="GET", path="/v1/balance", parse=_one(Balance))


def list_graphs() -> Call[Page[Graph]]:
    """All graphs."""
    return Call(method="GET", path="/v1/graphs", parse=_page(Graph))


def list_tools() -> Call[Page[ToolDescription]]:
    """All tools."""
    return Call(method="GET", path="/v1/tools", parse=_page(ToolDescription))


def list_models() -> Call[Page[LanguageModel]]:
    """All models."""
    return Call(method="GET", path="/v1/models", parse=_page(LanguageModel))


def list_conversations(cursor: str | None) -> Call[Page[Conversation]]:
    """A page of conversations."""
    return _list("/v1/sessions", Conversation, cursor)


def get_conversation(state_key: str) -> Call[Conversation]:
    """A conversation, without its messages."""

    def parse(document: Any) -> Conversation:
        head = document if isinstance(document, dict) else {}
        left_out = {"messages", "nextCursor"}
        return read(Conversation, {name: value for name, value in head.items() if name not in left_out})

    return Call(method="GET", path=_conversation(state_key), query={"limit": "1"}, parse=parse)


def list_conversation_messages(state_key: str, cursor: str | None) -> Call[Page[ConversationMessage]]:
    """A page of a conversation's messages, oldest first."""
    parse = _page(ConversationMessage, "messages")
    return Call(method="GET", path=_conversation(state_key), query=_after(cursor), parse=parse)


def fork_conversation(state_key: str, *, at: str | None, new_key: str | None) -> Call[Conversation]:
    """Copy a conversation up to a run; a repeated request would make a second copy."""
    given = {"at": at, "stateKey": new_key}
    body = {name: value for name, value in given.items() if value is not None}
    path = f"{_conversation(state_key)}/fork"
    return Call(method="POST", path=path, body=body, parse=_one(Conversation), repeatable=False)


def delete_conversation(state_key: str) -> Call[None]:
    """Delete a conversation; a repeated request would not find it."""
    return Call(method="DELETE", path=_conversation(state_key), parse=_nothing, repeatable=False)


def list_files(run_id: str) -> Call[Page[RunFile]]:
    """List the files of a run's workspace."""
    return Call(method="GET", path=f"{_run(run_id)}/files", parse=_page(RunFile))


def read_file(run_id: str, path: str) -> Call[bytes]:
    """Download a file of a run's workspace."""
    return Call(method="GET", path=f"{_run(run_id)}/files/{quote(path)}", parse=bytes, is_json=False)


def delete_run(run_id: str) -> Call[None]:
    """Delete the contents of an ended run."""
    return Call(method="DELETE", path=_run(run_id), parse=_nothing)


_EVENTS = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
_PAGE_LIMIT = 200
_FILTERS = {
    "run_id": "runId",
    "graph_id": "graphId",
    "model": "model",
    "api_key_id": "apiKeyId",
    "basis": "basis",
    "origin": "origin",
    "since": "from",
    "until": "to",
    "group_by": "groupBy",
    "split_by": "splitBy",
    "top": "top",
    "time_zone": "timeZone",
}


def _query(options: ReceiptFilters | UsageOptions) -> dict[str, str]:
    query = {}
    for name, value in options.items():
        if name not in _FILTERS:
            message = f"unknown option {name!r}; known are {', '.join(sorted(_FILTERS))}"
            raise TypeError(message)
        query[_FILTERS[name]] = moment(value) if isinstance(value, datetime) else str(value)
    return query


def _list(
    path: str, model: type[ModelT], cursor: str | None, query: Mapping[str, str] | None = None
) -> Call[Page[ModelT]]:
    return Call(method="GET", path=path, query={**(query or {}), **_after(cursor)}, parse=_page(model))


def _after(cursor: str | None) -> dict[str, str]:
    first = {"limit": str(_PAGE_LIMIT)}
    return first if cursor is None else {**first, "cursor": cursor}


def _one(model: type[ModelT]) -> Callable[[Any], ModelT]:
    return lambda document: read(model, document)


def _page(model: type[ModelT], name: str = "items") -> Callable[[Any], Page[ModelT]]:
    def parse(document: Any) -> Page[ModelT]:
        items = document.get(name) if isinstance(document, dict) else None
        if not isinstance(items, list):
            message = f"The server's list of {model.__name__} has no {name}."
            raise InvalidResponse(message)
        cursor = document.get("nextCursor")
        return Page([read(model, item) for item in items], None if cursor is None else str(cursor))

    return parse


def _nothing(_document: Any) -> None:
    return None


def _run(run_id: str) -> str:
    return f"/v1/runs/{_segment(run_id)}"


def _conversation(state_key: str) -> str:
    return f"/v1/sessions/{_segment(state_key)}"


def _segment(name: str) -> str:
    """One segment of a path; raises `ValueError` for what would be another path."""
    if name in {"", ".", ".."}:
        message = f"{name!r} is no id"
        raise ValueError(message)
    return quote(name, safe="")
