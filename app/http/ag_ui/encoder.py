"""The wire of AG-UI, the Agent-User Interaction protocol: HTTP with server-sent events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

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
from app.http.ag_ui.interrupt import OURS
from app.http.ag_ui.mapper import AgUiEventMapper
from app.http.streaming.encoder import EVENT_STREAM, RETRY_FRAME, REVOKED_MESSAGE
from app.storable import is_storable
from app.streams.event_json import from_json, to_json
from app.streams.port import LogEntry


class AgUiEncoder:
    """One run of AG-UI's: a run of ours up to where it waits for a person, or what follows after.

    It must hear the run's entries from the first, also those it says nothing of. Frames carry no
    `id`: the protocol knows no resumption; a client that comes back hears its run from the first
    event.
    """

    content_type: ClassVar[str] = EVENT_STREAM
    headers: ClassVar[Mapping[str, str]] = {}
    preamble: ClassVar[bytes] = RETRY_FRAME

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        our_run_id: str,
        after: int = 0,
        restated: Sequence[Message] | None = None,
    ) -> None:
        """`after` is the position this run of AG-UI's goes on from.

        `restated` is the conversation as it was there, for a client that has heard some of what
        follows already: told again without that, it would append it to what it has.
        """
        self._story = AgUiEventMapper(thread_id=thread_id, run_id=run_id, our_run_id=our_run_id)
        self._after = after
        metadata = {OURS: {"runId": our_run_id}}
        self._start: list[BaseEvent] = [
            RunStartedEvent(
                thread_id=thread_id, run_id=run_id, protocol_version=PROTOCOL_VERSION, metadata=metadata
            )
        ]
        if restated is not None:
            self._start.append(MessagesSnapshotEvent(messages=list(restated)))

    @property
    def ended(self) -> bool:
        """Whether this run of AG-UI's is over."""
        return self._story.ended

    @property
    def asking(self) -> bool:
        """Whether a person must decide about something."""
        return self._story.asking

    @property
    def in_step(self) -> bool:
        """Whether the agent has begun a step and not ended it: there may be more to decide about."""
        return self._story.in_step

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries, as one chunk."""
        return _frames(event for entry in entries for event in self._events(entry))

    def interrupt(self) -> bytes:
        """The end where nothing follows for now: a person must decide."""
        return _frames(self._story.interrupt())

    def encode_revoked(self) -> bytes:
        """The end for a reader who may hear no more; the run itself goes on."""
        return _frames([RunErrorEvent(message=REVOKED_MESSAGE, code=Unauthenticated.code)])

    def minted(self, entries: Sequence[LogEntry]) -> set[str]:
        """The ids of the messages a client has from these entries, all of them or some."""
        events = (event for entry in entries for event in self._events(entry))
        return {message_id for event in events for message_id in _messages_of(event)}

    def _events(self, entry: LogEntry) -> Iterator[BaseEvent]:
        told = self._story.tell(_whole(entry))
        if entry.position <= self._after:
            # Said in an earlier run of theirs: only what it leaves behind counts.
            for _ in told:
                pass
            self._story.start_over()
            return
        yield from self._start
        self._start.clear()
        yield from told


def _frames(events: Iterable[BaseEvent]) -> bytes:
    frames = (f"data: {event.model_dump_json(by_alias=True, ensure_ascii=True)}\n\n" for event in events)
    return "".join(frames).encode("ascii")


def _whole(entry: LogEntry) -> LogEntry:
    """Without what JSON cannot say; text, of which there is most, is looked at only."""
    position, event = entry
    if isinstance(event, TextDelta | ThinkingDelta) and is_storable(event.delta):
        return entry
    return LogEntry(position, from_json(to_json(event)))


def _messages_of(event: BaseEvent) -> list[str]:
    match event:
        case TextMessageStartEvent() | ReasoningMessageStartEvent() | ToolCallResultEvent():
            return [event.message_id]
        case ToolCallStartEvent():
            # The message a call of its own is put in.
            return [event.tool_call_id]
        case _:
            return []
