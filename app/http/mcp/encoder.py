"""CallEncoder: a run as the stream of one call."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self
from urllib.parse import quote, unquote

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    CallToolResult,
    InputRequiredResult,
    ProgressToken,
    RequestId,
    Result,
    TextContent,
)

from app.errors import Unauthenticated
from app.events import PermissionRequest, PermissionResolved, QuestionAsked, QuestionResolved
from app.http.mcp.client import McpClient
from app.http.mcp.errors import error_json
from app.http.mcp.forms import form_of
from app.http.mcp.input import OURS, name_of_run
from app.http.mcp.mapper import CallMapper
from app.http.mcp.tools import result_json
from app.http.streaming.encoder import (
    EVENT_STREAM,
    PAUSE_AFTER_S,
    PAUSE_AT_LATEST_S,
    REVOKED_MESSAGE,
    STOPPING_MESSAGE,
)
from app.http.streaming.pausing import Waiting, what_waits
from app.http.streaming.stopping import ServerStopping, retry_line
from app.ids import RUN_ID_PATTERN
from app.runs.generate import FAILURES
from app.runs.records import RunRecord
from app.streams.port import LogEntry

_EVENT: Final = re.compile(rf"({RUN_ID_PATTERN[1:-1]})/([0-9]{{1,9}})/([!-~]{{1,2000}})")
_REQUEST: Final = re.compile(rf"({RUN_ID_PATTERN[1:-1]})/([^/]{{1,128}})")


@dataclass(frozen=True, slots=True)
class Answering:
    """The request that a stream answers."""

    client: McpClient
    message_id: RequestId
    token: ProgressToken | None
    """By which the client recognises notifications of progress; None: it wants none."""
    may_approve: bool
    """Whether its caller may decide about calls of tools."""
    page: str
    """The URL where a person answers what waits."""
    is_structured: bool = False
    """Whether its tool has an output schema: clients then refuse an unstructured result that is no error."""


@dataclass(frozen=True, slots=True)
class EventId:
    """What the id of an event says, so that any server can go on with a stream that broke off."""

    run_id: str
    position: int
    message_id: RequestId
    token: ProgressToken | None

    def __str__(self) -> str:
        return f"{self.run_id}/{self.position}/{quote(json.dumps([self.message_id, self.token]))}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse an id; None if it is none of ours."""
        if (found := _EVENT.fullmatch(text)) is None:
            return None
        try:
            message_id, token = json.loads(unquote(found[3]))
        except (ValueError, TypeError, RecursionError):
            return None
        if not isinstance(message_id, str | int) or not isinstance(token, str | int | None):
            return None
        return cls(found[1], int(found[2]), message_id, token)


def request_named(text: object) -> tuple[str, str] | None:
    """The run and the request that the id of one of our requests to a client names."""
    found = _REQUEST.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (found[1], found[2])


class CallEncoder:
    """Receives the entries of a run in order.

    A stream ends with the run, or where a person has to answer who is not asked in it: in revisions without
    sessions the result asks, in others the stream does, and clients without forms get a link.
    """

    content_type: ClassVar[str] = EVENT_STREAM
    headers: ClassVar[Mapping[str, str]] = {}
    pause_at_latest_s: ClassVar[float | None] = PAUSE_AT_LATEST_S
    preamble: ClassVar[bytes] = b""

    def __init__(
        self,
        record: RunRecord,
        answering: Answering,
        *,
        received: int = -1,
        decided: frozenset[str] = frozenset(),
    ) -> None:
        """`received`: the position up to which the client has the stream; `decided` need no answer."""
        self._record = record
        self._to = answering
        self._received = received
        self._decided = decided
        self._mapper = CallMapper()
        self._position = 0
        # The first event has only an id, so that a stream that breaks off before the next can be resumed.
        client = answering.client
        self._is_primed = received < 0 and client.has_lists and not client.is_modern

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self._mapper.done is not None

    @property
    def pause_after_s(self) -> float | None:
        """Seconds of idle time before the pause; None if nothing waits that is not asked in the stream."""
        waiting = self._waiting
        is_asked = not self._to.client.is_modern and all(map(self._has_form, waiting))
        return None if not waiting or is_asked else PAUSE_AFTER_S

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The messages of these entries."""
        resolved = {
            entry.event.request_id
            for entry in entries
            if isinstance(entry.event, PermissionResolved | QuestionResolved)
        }
        return "".join(frame for entry in entries for frame in self._frames(entry, resolved)).encode("ascii")

    def encode_pause(self) -> bytes:
        """The result of a call whose run waits."""
        waiting = self._waiting
        if not all(map(self._has_form, waiting)):
            return self._answer(self._linked(waiting)).encode("ascii")
        requests = {
            each.request_id: {"method": "elicitation/create", "params": self._form(each)}
            for each in waiting
            if isinstance(each, PermissionRequest | QuestionAsked)
        }
        asks = {"inputRequests": requests, "requestState": self._record.key.run_id, "_meta": self._meta}
        return self._answer(InputRequiredResult.model_validate(asks)).encode("ascii")

    def encode_revoked(self) -> bytes:
        """End the stream of a caller whose credential was revoked; the run continues."""
        return self._failed(INVALID_REQUEST, REVOKED_MESSAGE, Unauthenticated.code)

    def encode_stopping(self) -> bytes:
        """Clients of the revisions with sessions come back by themselves."""
        if self._to.client.is_modern:
            return self._failed(INTERNAL_ERROR, STOPPING_MESSAGE, ServerStopping.code)
        return retry_line()

    @property
    def _waiting(self) -> list[Waiting]:
        return [each for name, each in self._mapper.pending.items() if name not in self._decided]

    @property
    def _meta(self) -> dict[str, Any]:
        run = self._record
        conversation = {} if run.state_key is None else {f"{OURS}conversation": run.state_key}
        return {f"{OURS}runId": run.key.run_id, **conversation}

    def _has_form(self, waiting: Waiting) -> bool:
        """Whether the client's user can answer this in the client."""
        if not self._to.client.has_forms:
            return False
        if isinstance(waiting, PermissionRequest):
            return self._to.may_approve
        return isinstance(waiting, QuestionAsked)

    def _form(self, asked: PermissionRequest | QuestionAsked) -> dict[str, Any]:
        return form_of(asked, has_lists=self._to.client.has_lists)

    def _frames(self, entry: LogEntry, resolved: set[str]) -> Iterator[str]:
        is_new = entry.position > self._received
        if self._is_primed:
            self._is_primed = False
            yield f"id: {self._event_id(0)}\ndata: \n\n"
        for each in self._mapper.map(entry):
            message = self._progress(entry, each) if isinstance(each, str) else self._asked(each, resolved)
            if message is not None and is_new:
                yield self._frame(entry.position, message)
        self._position = entry.position
        if self.ended:
            yield self._answer(self._result())

    def _progress(self, entry: LogEntry, text: str) -> dict[str, Any] | None:
        if self._to.token is None:
            return None
        params = {"progressToken": self._to.token, "progress": entry.position, "message": text}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def _asked(self, waiting: Waiting, resolved: set[str]) -> dict[str, Any] | None:
        """A request to the client, which answers it to any server: its id says what it is about."""
        known = waiting.request_id in resolved or waiting.request_id in self._decided
        if self._to.client.is_modern or known or not self._has_form(waiting):
            return None
        if not isinstance(waiting, PermissionRequest | QuestionAsked):
            return None
        name = f"{self._record.key.run_id}/{waiting.request_id}"
        return {"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": self._form(waiting)}

    def _result(self) -> CallToolResult:
        if self._mapper.error is not None:
            detail = FAILURES[self._mapper.error.error]().detail
            return self._of_text(detail, is_error=True)
        final = self._mapper.final
        structured = None if final is None else final.structured_output
        result = self._of_text(self._mapper.answer)
        # Earlier revisions have objects only.
        return result.model_copy(
            update={"structured_content": structured if isinstance(structured, dict) else None}
        )

    def _linked(self, waiting: Sequence[Waiting]) -> CallToolResult:
        run_id = self._record.key.run_id
        what = "; ".join(map(what_waits, waiting))
        notice = (
            f"[Waiting for a person: {what}. {self._to.page}?runId={run_id} Then call this tool again with "
            f'conversation "{name_of_run(run_id)}" to get the answer.]'
        )
        text = f"{self._mapper.text}\n\n{notice}".strip()
        return self._of_text(text, is_error=self._to.is_structured)

    def _of_text(self, text: str, *, is_error: bool = False) -> CallToolResult:
        content = [TextContent(type="text", text=text)]
        return CallToolResult.model_validate({"content": content, "isError": is_error, "_meta": self._meta})

    def _answer(self, result: Result) -> str:
        shaped = result_json(self._to.client, result)
        return self._frame(self._position, {"jsonrpc": "2.0", "id": self._to.message_id, "result": shaped})

    def _failed(self, code: int, message: str, ours: str) -> bytes:
        error = error_json(self._to.message_id, code, message, {"code": ours})
        return self._frame(self._position, error).encode("ascii")

    def _frame(self, position: int, message: dict[str, Any]) -> str:
        # Revisions without sessions have no ids of events.
        name = "" if self._to.client.is_modern else f"id: {self._event_id(position)}\n"
        return f"{name}event: message\ndata: {json.dumps(message, separators=(',', ':'))}\n\n"

    def _event_id(self, position: int) -> EventId:
        return EventId(self._record.key.run_id, position, self._to.message_id, self._to.token)
