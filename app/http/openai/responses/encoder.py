"""ResponseEncoder: the typed events of a response, and the response itself."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app import events
from app.http.openai.answer import NOTHING, AnswerOptions, Citations, Received, RunAnswer, token_usage
from app.http.openai.mapper import Delta
from app.http.openai.responses.ids import ResponseName
from app.http.streaming.discarded_entries import discarded_in, not_discarded
from app.http.streaming.pausing import asked_in
from app.runs.events.failures import failure_of
from app.runs.records import RunRecord
from app.streams.port import LogEntry

SERVER_LABEL: Final = "runtally"
"""Whose tools wait for approval."""

_CODES: Final = {"invalid_request": "invalid_prompt", "rate_limit": "rate_limit_exceeded"}
"""Codes of failures that their clients know, by ours; all others are `server_error`."""
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why an answer is incomplete, by the reason why it finishes."""


class ResponseEncoder(RunAnswer):
    """Encodes what a run answers after a position as one response.

    Events up to `starting_after` are numbered and not sent.
    """

    def __init__(
        self,
        record: RunRecord,
        options: AnswerOptions,
        received: Received = NOTHING,
        *,
        starting_after: int = -1,
    ) -> None:
        super().__init__(record.key.run_id, options, received)
        self.name = ResponseName(record.key.run_id, received.position)
        self._record = record
        self._starting_after = starting_after
        self._sequence = 0
        self._begun: str | None = None
        """The status that was told last."""
        self._output: list[dict[str, Any]] = []
        self._open: dict[str, Any] = {}
        """The item that is being written: a message or reasoning."""
        self._text: list[str] = []
        """That of it."""
        self._is_cut = False
        """Whether its message has not ended, as far as it is known."""
        self._cited = Citations()
        self._asked_at = 0
        """Where the last of what has begun to wait was."""
        self._completed_s = 0
        """When the last of that was, or the end of the run."""
        self.next_after: int | None = None
        """The position after which the next response to the same run begins, once this one was answered."""

    @property
    def position(self) -> int:
        """That of the last event that belongs to it."""
        return self._position

    @property
    def waits_for_person(self) -> bool:
        """Whether it ends where a person has to answer, or had to."""
        return self._mapper.done is None and bool(self._for_person)

    @property
    def waits_for_client(self) -> bool:
        """Whether it ends with calls that have no results yet."""
        return not self.ended and bool(self._for_client)

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        return "".join(frame for entry in entries for frame in self._frames(entry)).encode("ascii")

    def encode_pause(self) -> bytes:
        """The last events of a response to a run that waits."""
        self._is_over = True
        return "".join([*self._begin(), *self._finish()]).encode("ascii")

    def encode_revoked(self) -> bytes:
        """End the response of a reader whose credential was revoked; the run continues."""
        return self._error(super().encode_revoked())

    def encode_stopping(self) -> bytes:
        """An error: a stream that only ends looks like a complete answer to some clients."""
        return self._error(super().encode_stopping())

    def _error(self, frame: bytes) -> bytes:
        error = json.loads(frame.removeprefix(b"data: "))["error"]
        known = {name: error[name] for name in ("code", "message", "param")}
        return self._frame("error", **known).encode("ascii")

    @property
    def response(self) -> dict[str, Any]:
        status = self._status
        done, failure = self._mapper.done, self._failure
        error = None
        if failure is not None and status == "failed":
            error = {"code": _CODES.get(failure.error, "server_error"), "message": failure_of(failure).detail}
        details = {"reason": _INCOMPLETE[self._reason]} if status == "incomplete" else None
        usage = None if done is None else token_usage(done, "input", "output")
        return {
            **self._head(status),
            "completed_at": (self._completed_s or None) if status == "completed" else None,
            "error": error,
            "incomplete_details": details,
            "output": self._output,
            "usage": usage,
        }

    @property
    def _status(self) -> str:
        if self._mapper.done is None:
            waiting = "queued" if self._record.status == "queued" else "in_progress"
            return "completed" if self._is_over else waiting
        if self._failure is not None:
            return "cancelled" if self._failure.error == "aborted" else "failed"
        return "incomplete" if self._reason in _INCOMPLETE else "completed"

    def _head(self, status: str) -> dict[str, Any]:
        record = self._record
        conversation = None if record.state_key is None else {"id": record.state_key}
        return {
            "id": self.name.id_of("resp"),
            "object": "response",
            "created_at": int(record.created_at.timestamp()),
            "status": status,
            "model": self._options.model,
            "metadata": dict(record.labels.metadata or {}),
            "conversation": conversation,
            "instructions": None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "temperature": None,
            "top_p": None,
        }

    def _frames(self, entry: LogEntry) -> Iterator[str]:
        if self.ended:
            return
        if self._is_answer(entry):
            self._is_over, self.next_after = True, self._asked_at
            yield from self._finish()
            return
        deltas = self._new(entry)
        if entry.position > self._received.position:
            self._note(entry)
            yield from self._begin("queued" if isinstance(entry.event, events.Queued) else "in_progress")
        for delta in deltas:
            yield from self._added(delta)
        if self._mapper.done is not None:
            self._completed_s = entry.at // 1000
            yield from self._begin()
            yield from self._finish()

    def _note(self, entry: LogEntry) -> None:
        if asked_in([entry]):
            self._asked_at, self._completed_s = entry.position, entry.at // 1000
        elif isinstance(entry.event, events.AssistantFinal) or (
            isinstance(entry.event, events.ToolCallStart) and entry.event.parent_tool_call_id is None
        ):
            self._is_cut = False

    def _begin(self, status: str = "in_progress") -> Iterator[str]:
        if self._begun in ("in_progress", status):
            return
        names = (status,) if self._begun else ("created", status)
        self._begun = status
        head = {**self._head(status), "error": None, "incomplete_details": None}
        for name in names:
            yield self._frame(f"response.{name}", response={**head, "output": [], "usage": None})

    def _finish(self) -> Iterator[str]:
        if self._mapper.done is None:
            waiting = self._for_person
            yield from self._approvals(
                [each for each in waiting if isinstance(each, events.PermissionRequest)]
            )
            rest = [each for each in waiting if not isinstance(each, events.PermissionRequest)]
            for delta in self._notice(rest):
                yield from self._added(delta)
        is_whole = self._status == "completed" or not self._is_cut
        yield from self._close("completed" if is_whole else "incomplete")
        response = self.response
        kind = "failed" if response["status"] == "cancelled" else response["status"]
        yield self._frame(f"response.{kind}", response=response)

    def _added(self, delta: Delta) -> Iterator[str]:
        for call in delta.get("tool_calls", ()):
            yield from self._call(call)
        if text := delta.get("reasoning_content"):
            yield from self._written("reasoning", text)
        if text := delta.get("content"):
            yield from self._written("message", text)
        if self._open.get("type") == "message":
            for page in delta.get("annotations", ()):
                yield from self._annotated(page)

    def _written(self, kind: str, text: str) -> Iterator[str]:
        """More text of the item of this type that is open, or of a new one."""
        if self._open.get("type") != kind:
            if not (text := text.lstrip("\n")):
                return
            yield from self._close()
            yield from self._opened(kind)
        self._text.append(text)
        self._is_cut = True
        if kind == "message":
            yield self._of_part("response.output_text.delta", delta=text, logprobs=[])
        else:
            yield self._of_part("response.reasoning_summary_text.delta", delta=text)

    def _annotated(self, page: dict[str, Any]) -> Iterator[str]:
        number = len(self._cited)
        if (cited := self._cited.cite(page, sum(map(len, self._text)))) is not None:
            kind = "response.output_text.annotation.added"
            yield self._of_part(kind, annotation_index=number, annotation=cited)

    def _opened(self, kind: str) -> Iterator[str]:
        name = self.name.id_of("msg" if kind == "message" else "rs", len(self._output))
        self._open, self._text, self._cited = {"id": name, "type": kind}, [], Citations()
        yield self._of_item("added", _item(self._open, None))
        if kind == "message":
            yield self._of_part("response.content_part.added", part=output_text(""))
        else:
            yield self._of_part("response.reasoning_summary_part.added", part=_summary(""))

    def _close(self, status: str = "completed") -> Iterator[str]:
        if not (item := self._open):
            return
        text = "".join(self._text)
        if item["type"] == "message":
            yield self._of_part("response.output_text.done", text=text, logprobs=[])
            yield self._of_part("response.content_part.done", part=output_text(text, self._cited))
        else:
            yield self._of_part("response.reasoning_summary_text.done", text=text)
            yield self._of_part("response.reasoning_summary_part.done", part=_summary(text))
        self._open = {}
        yield self._done(_item(item, text, self._cited, status=status))

    def _call(self, call: dict[str, Any]) -> Iterator[str]:
        yield from self._close()
        arguments = call["function"]["arguments"]
        item = {"id": self.name.id_of("fc", len(self._output)), "type": "function_call"}
        item |= {"call_id": call["id"], "name": call["function"]["name"]}
        yield self._of_item("added", {**item, "arguments": "", "status": "in_progress"})
        place = {"item_id": item["id"], "output_index": len(self._output)}
        kind = "response.function_call_arguments"
        yield self._frame(f"{kind}.delta", **place, delta=arguments)
        yield self._frame(f"{kind}.done", **place, name=item["name"], arguments=arguments)
        yield self._done({**item, "arguments": arguments, "status": "completed"})

    def _approvals(self, requests: Sequence[events.PermissionRequest]) -> Iterator[str]:
        for request in requests:
            yield from self._close()
            item = {
                "id": self.name.id_of("mcpr", request.request_id),
                "type": "mcp_approval_request",
                "server_label": SERVER_LABEL,
                "name": request.tool_name,
                "arguments": json.dumps(request.args, separators=(",", ":")),
            }
            yield self._of_item("added", item)
            yield self._done(item)

    def _done(self, item: dict[str, Any]) -> str:
        frame = self._of_item("done", item)
        self._output.append(item)
        return frame

    def _of_item(self, kind: str, item: dict[str, Any]) -> str:
        return self._frame(f"response.output_item.{kind}", output_index=len(self._output), item=item)

    def _of_part(self, kind: str, **fields: Any) -> str:
        """An event of the only part of the open item."""
        item = self._open
        index = "content_index" if item["type"] == "message" else "summary_index"
        place = {"item_id": item["id"], "output_index": len(self._output), index: 0}
        return self._frame(kind, **place, **fields)

    def _frame(self, kind: str, **fields: Any) -> str:
        number, self._sequence = self._sequence, self._sequence + 1
        if number <= self._starting_after:
            return ""
        data = json.dumps({"type": kind, "sequence_number": number, **fields}, separators=(",", ":"))
        return f"event: {kind}\ndata: {data}\n\n"


class WholeResponse(ResponseEncoder):
    """The response as one object; nothing is encoded before it is complete."""

    def __init__(self, record: RunRecord, options: AnswerOptions, received: Received = NOTHING) -> None:
        super().__init__(record, options, received)
        self._entries: list[LogEntry] = []

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        super().encode(entries)
        self._entries += entries
        return b""

    def _frame(self, kind: str, **fields: Any) -> str:  # noqa: ARG002 - those of a stream
        return ""

    def encode_so_far(self, entries: Sequence[LogEntry]) -> None:
        """Keep all entries of the run so far; if it waits, the response is complete."""
        self.encode(entries)
        if self.pause_after_s is not None and not self.ended:
            self.encode_pause()

    @property
    def content(self) -> dict[str, Any]:
        """What clients put together from the events, without the messages that were discarded."""
        whole = ResponseEncoder(self._record, self._options, self._received)
        whole.encode(not_discarded(self._entries, discarded_in(self._entries)))
        if self._is_over and not whole.ended:
            whole.encode_pause()
        return whole.response

    def require_answer(self) -> None:
        """Raise what `failure_of` the run is, if it has failed."""
        if self._mapper.done is not None and self._failure is not None:
            raise failure_of(self._failure, run_id=self._mapper.run_id)


def _item(
    known: dict[str, Any], text: str | None, cited: Sequence[Delta] = (), *, status: str = "in_progress"
) -> dict[str, Any]:
    """A message or reasoning as clients have it; None: its text is yet to come."""
    item = {**known, "status": status}
    if known["type"] == "reasoning":
        return {**item, "summary": [] if text is None else [_summary(text)]}
    return {**item, "role": "assistant", "content": [] if text is None else [output_text(text, cited)]}


def output_text(text: str, cited: Sequence[Delta] = ()) -> dict[str, Any]:
    """The only part of a message of the model."""
    return {"type": "output_text", "text": text, "annotations": list(cited), "logprobs": []}


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}
