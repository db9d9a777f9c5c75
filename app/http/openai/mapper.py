"""CompletionMapper: maps a run to the parts of one answer, without I/O."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from app import events
from app.http.streaming.discarded_text import AnswerText
from app.http.streaming.pausing import Waiting
from app.streams.port import LogEntry

Delta: TypeAlias = dict[str, Any]
"""What a chunk adds to the message."""

_NotShown: TypeAlias = (
    events.Queued
    | events.Status
    | events.RunWarning
    | events.Interrupted
    | events.Step
    | events.UserMessageDelivered
    | events.FilesChanged
)


@dataclass(slots=True)
class CompletionMapper:
    """Maps each entry of a run, in order. Calls of the graph's own tools, and subagents, are not shown."""

    run_id: str
    is_object: bool
    """Whether the answer is an object: the only text is its JSON."""
    pending: dict[str, Waiting] = field(default_factory=dict)
    """What waits for a person, by the id of the request."""
    waiting: set[str] = field(default_factory=set)
    """The calls of client tools without a result."""
    error: events.RunError | None = None
    done: events.Done | None = None
    _text: AnswerText = field(default_factory=AnswerText)
    _open_calls: set[str] = field(default_factory=set)
    """Those without a result of our own tools, and of the client's that it has yet to get."""

    @property
    def has_open_calls(self) -> bool:
        """Whether calls have no result yet of our own tools, or of the client's that it has yet to get."""
        return bool(self._open_calls)

    def map(self, entry: LogEntry) -> Iterator[Delta]:
        event = entry.event
        match event:
            case events.TextDelta() | events.ThinkingDelta() | events.MessageDiscarded():
                yield from self._written(event)
            case events.Citation():
                if event.parent_tool_call_id is None and not self.is_object:
                    yield {"annotations": [{"title": event.title or event.url, "url": event.url}]}
            case events.ToolCallStart() | events.ToolCallResult() | events.ClientToolCall():
                yield from self._called(event)
            case events.PermissionRequest() | events.QuestionAsked() | events.BudgetReached():
                self.pending[event.request_id] = event
            case events.PermissionResolved() | events.QuestionResolved():
                self.pending.pop(event.request_id, None)
            case events.RunStarted() | events.AssistantFinal() | events.RunError() | events.Done():
                yield from self._lifecycle(event)
            case _:
                _not_shown(event)

    def _written(
        self, event: events.TextDelta | events.ThinkingDelta | events.MessageDiscarded
    ) -> Iterator[Delta]:
        if event.parent_tool_call_id is not None:
            return
        match event:
            case events.ThinkingDelta():
                yield {"reasoning_content": event.delta}
            case events.MessageDiscarded():
                self._text.discard(event.message_id)
            case events.TextDelta() if not self.is_object:
                if text := self._text.add(event.message_id, event.delta):
                    yield {"content": text}

    def _called(
        self, event: events.ToolCallStart | events.ToolCallResult | events.ClientToolCall
    ) -> Iterator[Delta]:
        match event:
            case events.ToolCallStart():
                self._open_calls.add(event.tool_call_id)
            case events.ToolCallResult():
                self._open_calls.discard(event.tool_call_id)
                self.waiting.discard(event.tool_call_id)
            case events.ClientToolCall():
                self._open_calls.discard(event.tool_call_id)
                self.waiting.add(event.tool_call_id)
                arguments = json.dumps(event.args, separators=(",", ":"))
                function = {"name": event.tool_name, "arguments": arguments}
                call = {"id": call_id(self.run_id, event.tool_call_id), "type": "function"}
                yield {"tool_calls": [{**call, "function": function}]}

    def _lifecycle(
        self, event: events.RunStarted | events.AssistantFinal | events.RunError | events.Done
    ) -> Iterator[Delta]:
        match event:
            case events.RunStarted():
                # A later attempt: what the earlier one left open has no end.
                self.pending.clear()
                self.waiting.clear()
                self._open_calls.clear()
            case events.AssistantFinal():
                if self.is_object:
                    yield {"content": json.dumps(event.structured_output, separators=(",", ":"))}
                elif self._text.is_empty and event.content:
                    # Its events are deleted, but for the end.
                    yield {"content": self._text.add("", event.content)}
            case events.RunError():
                self.error = event
            case events.Done():
                self.done = event
                if rest := self._text.close():
                    yield {"content": rest}


def _not_shown(event: _NotShown) -> None:
    """No client of this wire has a place for these."""
    if not isinstance(event, _NotShown):
        assert_never(event)


_SEPARATOR = "--"


def call_id(run_id: str, tool_call_id: str) -> str:
    """The id of a client's call: with that of its run, because a result says nothing else of it."""
    return f"{run_id}{_SEPARATOR}{tool_call_id}"


def run_of_call(known: str) -> tuple[str, str]:
    run_id, _, tool_call_id = known.partition(_SEPARATOR)
    return run_id, tool_call_id
