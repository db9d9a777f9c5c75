"""CallEncoder: a run as the stream of one call."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote, unquote

import mcp_types as types

from app.errors import Unauthenticated
from app.events import PermissionRequest, PermissionResolved, QuestionAsked, QuestionResolved
from app.http.mcp.errors import error_json
from app.http.mcp.results import Answering, CallAnswer
from app.http.mcp.tools import result_json
from app.http.streaming import encoder
from app.http.streaming.pausing import Waiting
from app.http.streaming.stopping import ServerStopping, retry_line
from app.ids import RUN_ID_PATTERN
from app.runs.records import RunRecord
from app.streams.port import LogEntry

_EVENT: Final = re.compile(rf"({RUN_ID_PATTERN[1:-1]})/([0-9]{{1,9}})/([!-~]{{1,2000}})")
_REQUEST: Final = re.compile(rf"({RUN_ID_PATTERN[1:-1]})/([^/]{{1,128}})")


@dataclass(frozen=True, slots=True)
class EventId:
    """What the id of an event says, so that any server can go on with a stream that broke off."""

    run_id: str
    position: int
    message_id: types.RequestId
    token: types.ProgressToken | None
    is_task: bool = False
    """Whether the request asks for a task."""

    def __str__(self) -> str:
        request = [self.message_id, self.token, *([True] if self.is_task else [])]
        return f"{self.run_id}/{self.position}/{quote(json.dumps(request))}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse an id; None if it is none of ours."""
        if (found := _EVENT.fullmatch(text)) is None:
            return None
        try:
            message_id, token, *task = json.loads(unquote(found[3]))
        except (ValueError, TypeError, RecursionError):
            return None
        if not isinstance(message_id, str | int) or not isinstance(token, str | int | None):
            return None
        return cls(found[1], int(found[2]), message_id, token, is_task=bool(task))


def request_named(text: object) -> tuple[str, str] | None:
    """The run and the request that the id of one of our requests to a client names."""
    found = _REQUEST.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (found[1], found[2])


class CallEncoder(encoder.PausingEncoder):
    """Receives the entries of a run in order.

    A stream ends with the run, or where a person has to answer who is not asked in it: in revisions without
    sessions the result asks, in others the stream does, and clients without forms get a link. That of a task
    ends with the run.
    """

    def __init__(
        self,
        record: RunRecord,
        answering: Answering,
        *,
        received: int = -1,
        decided: frozenset[str] = frozenset(),
    ) -> None:
        """`received`: the position up to which the client has the stream; `decided` need no answer."""
        self._run_id = record.key.run_id
        self._to = answering
        self._received = received
        self._call = CallAnswer(record, answering, decided)
        self._position = 0
        # The first event has only an id, so that a stream that breaks off before the next can be resumed.
        client = answering.client
        self._is_primed = received < 0 and client.has_lists and not client.is_modern

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self._call.mapper.done is not None

    @property
    def pause_after_s(self) -> float | None:
        """Seconds of idle time before the pause; None if nothing waits that is not asked in the stream."""
        is_asked = not self._to.client.is_modern and self._call.has_forms
        return None if self._to.is_task or not self._call.waiting or is_asked else encoder.PAUSE_AFTER_S

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
        call = self._call
        if not call.has_forms:
            return self._answer(call.linked()).encode("ascii")
        asks = {"inputRequests": call.requests, "requestState": self._run_id, "_meta": call.meta}
        return self._answer(types.InputRequiredResult.model_validate(asks)).encode("ascii")

    def encode_revoked(self) -> bytes:
        """End the stream of a caller whose credential was revoked; the run continues."""
        return self._failed(types.INVALID_REQUEST, encoder.REVOKED_MESSAGE, Unauthenticated.code)

    def encode_stopping(self) -> bytes:
        """Clients of the revisions with sessions come back by themselves."""
        if self._to.client.is_modern:
            return self._failed(types.INTERNAL_ERROR, encoder.STOPPING_MESSAGE, ServerStopping.code)
        return retry_line()

    def _frames(self, entry: LogEntry, resolved: set[str]) -> Iterator[str]:
        is_new = entry.position > self._received
        if self._is_primed:
            self._is_primed = False
            yield f"id: {self._event_id(0)}\ndata: \n\n"
        for each in self._call.mapper.map(entry):
            message = self._progress(entry, each) if isinstance(each, str) else self._asked(each, resolved)
            if message is not None and is_new:
                yield self._frame(entry.position, message)
        self._position = entry.position
        if self.ended:
            yield self._answer(self._call.result())

    def _progress(self, entry: LogEntry, text: str) -> dict[str, Any] | None:
        if self._to.token is None:
            return None
        params = {"progressToken": self._to.token, "progress": entry.position, "message": text}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def _asked(self, waiting: Waiting, resolved: set[str]) -> dict[str, Any] | None:
        """A request to the client, which answers it to any server: its id says what it is about."""
        known = waiting.request_id in resolved or waiting.request_id in self._call.decided
        if self._to.client.is_modern or known or not self._call.has_form(waiting):
            return None
        if not isinstance(waiting, PermissionRequest | QuestionAsked):
            return None
        name = f"{self._run_id}/{waiting.request_id}"
        form = self._call.form(waiting)
        return {"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": form}

    def _answer(self, result: types.Result) -> str:
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
        request = (self._to.message_id, self._to.token)
        return EventId(self._run_id, position, *request, is_task=self._to.is_task)
