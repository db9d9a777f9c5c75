"""AgUiEncoder: the wire of AG-UI, the Agent-User Interaction protocol, over server-sent events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    Message,
    MessagesSnapshotEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunStartedEvent,
    TextMessageStartEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from app.errors import Unauthenticated
from app.events import TextDelta, ThinkingDelta
from app.http.ag_ui.interrupt import METADATA_KEY
from app.http.ag_ui.mapper import AgUiEventMapper
from app.http.streaming.encoder import EVENT_STREAM, RETRY_FRAME, REVOKED_MESSAGE
from app.serialization.storable import is_storable
from app.streams.event_json import from_json, to_json
from app.streams.port import LogEntry

PAUSE_AFTER_S: Final = 0.25
"""A run that waits for a person emits nothing more once it has been idle for this long."""

PAUSE_IN_STEP_AFTER_S: Final = 3.0
"""The same while the model may be writing further calls: the calls of a step are decided together."""


class AgUiEncoder:
    """Encodes one AG-UI run: a run up to where it waits for a person, or the part after a decision.

    Needs the run's entries from the first, including those of earlier AG-UI runs. Frames have no `id`:
    the protocol has no resumption, and a client that reconnects receives its AG-UI run from the start.
    """

    content_type: ClassVar[str] = EVENT_STREAM
    headers: ClassVar[Mapping[str, str]] = {}
    preamble: ClassVar[bytes] = RETRY_FRAME
    # A pause would split the message that a subagent is writing.
    pause_at_latest_s: ClassVar[float | None] = None

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        our_run_id: str,
        after: int = 0,
        snapshot: Sequence[Message] | None = None,
    ) -> None:
        """`after` is the last position of the previous AG-UI run.

        `snapshot` holds the messages up to there, for a client that has already received some of what
        follows: without it, the client would append those messages a second time.
        """
        self._mapper = AgUiEventMapper(thread_id=thread_id, run_id=run_id, our_run_id=our_run_id)
        self._after = after
        metadata = {METADATA_KEY: {"runId": our_run_id}}
        self._start: list[BaseEvent] = [
            RunStartedEvent(
                thread_id=thread_id, run_id=run_id, protocol_version=PROTOCOL_VERSION, metadata=metadata
            )
        ]
        if snapshot is not None:
            self._start.append(MessagesSnapshotEvent(messages=list(snapshot)))

    @property
    def ended(self) -> bool:
        """Whether this AG-UI run has ended."""
        return self._mapper.ended

    @property
    def pause_after_s(self) -> float | None:
        """Seconds of idle time before the interrupt; None if no tool call waits for a person."""
        if not self._mapper.needs_decision:
            return None
        return PAUSE_IN_STEP_AFTER_S if self._mapper.in_step else PAUSE_AFTER_S

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries as one chunk."""
        return _frames(event for entry in entries for event in self._events(entry))

    def encode_pause(self) -> bytes:
        """End the AG-UI run with the outcome `interrupt`."""
        return _frames(self._mapper.interrupt())

    def encode_revoked(self) -> bytes:
        """End the response of a reader whose credential was revoked; the run continues."""
        return _frames([RunErrorEvent(message=REVOKED_MESSAGE, code=Unauthenticated.code)])

    def message_ids(self, entries: Sequence[LogEntry]) -> set[str]:
        """The ids of all messages that these entries result in."""
        events = (event for entry in entries for event in self._events(entry))
        return {message_id for event in events for message_id in _messages_of(event)}

    def _events(self, entry: LogEntry) -> Iterator[BaseEvent]:
        events = self._mapper.map(_sanitized(entry))
        if entry.position <= self._after:
            # Sent in an earlier AG-UI run: mapped only for its effect on the mapper's state.
            for _ in events:
                pass
            self._mapper.reset()
            return
        yield from self._start
        self._start.clear()
        yield from events


def _frames(events: Iterable[BaseEvent]) -> bytes:
    frames = (f"data: {event.model_dump_json(by_alias=True, ensure_ascii=True)}\n\n" for event in events)
    return "".join(frames).encode("ascii")


def _sanitized(entry: LogEntry) -> LogEntry:
    """The entry without values that JSON cannot represent; deltas, the most frequent, are only checked."""
    position, event = entry
    if isinstance(event, TextDelta | ThinkingDelta) and is_storable(event.delta):
        return entry
    return LogEntry(position, from_json(to_json(event)))


def _messages_of(event: BaseEvent) -> list[str]:
    match event:
        case TextMessageStartEvent() | ReasoningMessageStartEvent() | ToolCallResultEvent():
            return [event.message_id]
        case ToolCallStartEvent():
            # Clients put a call without a parent message into a message of its own.
            return [event.tool_call_id]
        case _:
            return []
