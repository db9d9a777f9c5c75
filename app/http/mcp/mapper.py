"""CallMapper: what a call knows of its run, and what an event adds for its client; pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from app import events
from app.http.streaming.pausing import Waiting
from app.streams.port import LogEntry

SHOWN_CHARS: Final = 2_000
"""How much of the text so far a client is shown: its end."""

_EVERY_CHARS: Final = 200

_NotShown: TypeAlias = (
    events.Queued
    | events.Status
    | events.RunWarning
    | events.Interrupted
    | events.UserMessageDelivered
    | events.Citation
    | events.FilesChanged
    | events.ThinkingDelta
    | events.ToolCallStart
    | events.ToolCallResult
    | events.ClientToolCall
)


@dataclass(slots=True)
class CallMapper:
    """Maps each entry of a run, in order. Calls of the graph's own tools, and subagents, are not shown."""

    pending: dict[str, Waiting] = field(default_factory=dict)
    """What waits for a person, by the id of the request."""
    final: events.AssistantFinal | None = None
    error: events.RunError | None = None
    done: events.Done | None = None
    _message: str | None = None
    """The message that is being written, or was the last."""
    _text: list[str] = field(default_factory=list)
    _unshown: int = 0
    """How much of it was in no notification."""

    def map(self, entry: LogEntry) -> Iterator[str | Waiting]:
        """What one entry adds: the text so far, or what a person has to answer."""
        event = entry.event
        match event:
            case events.TextDelta() | events.MessageDiscarded() | events.Step():
                yield from self._written(event)
            case events.PermissionRequest() | events.QuestionAsked() | events.BudgetReached():
                self.pending[event.request_id] = event
                yield event
            case events.PermissionResolved() | events.QuestionResolved():
                self.pending.pop(event.request_id, None)
            case events.RunStarted():
                # A later attempt: what the earlier one left open has no end.
                self.pending.clear()
            case events.AssistantFinal():
                self.final = event
            case events.RunError():
                self.error = event
            case events.Done():
                self.done = event
            case _:
                _not_shown(event)

    @property
    def text(self) -> str:
        """That of the message that is being written, or was the last."""
        return "".join(self._text)

    @property
    def shown(self) -> str:
        """What a client is shown of it."""
        length = 0
        for start in reversed(range(len(self._text))):
            length += len(self._text[start])
            if length >= SHOWN_CHARS:
                return "".join(self._text[start:])[-SHOWN_CHARS:]
        return self.text

    @property
    def answer(self) -> str:
        """The answer as a text."""
        if self.final is None:
            return self.text
        if self.final.structured_output is not None:
            return json.dumps(self.final.structured_output, separators=(",", ":"))
        return self.final.content

    def _written(self, event: events.TextDelta | events.MessageDiscarded | events.Step) -> Iterator[str]:
        if event.parent_tool_call_id is not None:
            return
        if isinstance(event, events.MessageDiscarded):
            if event.message_id == self._message:
                self._text, self._unshown = [], 0
            return
        is_due = isinstance(event, events.Step)
        if isinstance(event, events.TextDelta):
            if event.message_id != self._message:
                self._message, self._text, self._unshown = event.message_id, [], 0
            is_due = not self._text
            self._unshown += len(event.delta)
            if event.delta:
                self._text.append(event.delta)
        # Not with each delta: a notification has all of the text.
        if self._unshown and (is_due or self._unshown >= _EVERY_CHARS):
            self._unshown = 0
            yield self.shown


def _not_shown(event: _NotShown) -> None:
    """No client of this wire has a place for these."""
    if not isinstance(event, _NotShown):
        assert_never(event)
