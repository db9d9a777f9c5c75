"""AgUiEncoder: the wire of AG-UI, the Agent-User Interaction protocol, over server-sent events."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from ag_ui import core

from app.errors import Unauthenticated
from app.events import MessageDiscarded, RunStarted, TextDelta, ThinkingDelta
from app.http.ag_ui.interrupt import METADATA_KEY
from app.http.ag_ui.output.mapper import AgUiEventMapper
from app.http.ag_ui.output.shown_messages import ShownMessages
from app.http.ag_ui.releases.dialect import CURRENT, Dialect
from app.http.streaming.encoder import RETRY_LINE, REVOKED_MESSAGE, STOPPING_MESSAGE, PausingEncoder
from app.http.streaming.stopping import ServerStopping
from app.storable import is_storable
from app.streams.event_json import from_json, to_json
from app.streams.port import LogEntry

PAUSE_AFTER_S: Final = 0.25
"""A run that waits for its client emits nothing more once it has been idle for this long."""

PAUSE_IN_STEP_AFTER_S: Final = 3.0
"""The same while the model may be writing further calls: the calls of a step are decided together."""


class AgUiEncoder(PausingEncoder):
    """Encodes one AG-UI run: a run up to where it waits for a person, or the part after a decision.

    Needs the run's entries from the first, including those of earlier AG-UI runs. Frames have no `id`:
    the protocol has no resumption, and a client that reconnects receives its AG-UI run from the start.
    """

    preamble: ClassVar[bytes] = RETRY_LINE
    # A pause would split the message that a subagent is writing.
    pause_at_latest_s: ClassVar[float | None] = None

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        our_run_id: str,
        after: int = 0,
        answered: frozenset[str] = frozenset(),
        names_pending: bool = False,
        posted: Sequence[core.Message] = (),
        dialect: Dialect = CURRENT,
    ) -> None:
        """`after` is the last position of the previous AG-UI run; `posted` is what the client shows.

        `answered` and `names_pending`: see `ClientCalls`.
        """
        self._mapper = AgUiEventMapper(
            thread_id=thread_id,
            run_id=run_id,
            our_run_id=our_run_id,
            answered=answered,
            names_pending=names_pending,
        )
        self._after = after
        self._at = 0
        """The time of the latest entry."""
        self._dialect = dialect
        self._shown = ShownMessages(posted)
        metadata = {METADATA_KEY: {"runId": our_run_id}}
        self._start: list[core.BaseEvent] = [
            core.RunStartedEvent(
                thread_id=thread_id, run_id=run_id, protocol_version=core.PROTOCOL_VERSION, metadata=metadata
            )
        ]
        self._snapshots: dict[int, str] = {}
        """The frames of snapshots, by the position of the entry that they precede."""

    def show(self, snapshots: Sequence[Sequence[core.Message]], entry: LogEntry) -> None:
        """Send these snapshots before an entry, so that the client shows the messages of the last one.

        They are encoded here, which takes long for a large thread.
        """
        events = _stamped([core.MessagesSnapshotEvent(messages=list(each)) for each in snapshots], entry.at)
        self._snapshots[entry.position] = self._frames(events)
        self._shown = ShownMessages(snapshots[-1])

    @property
    def ended(self) -> bool:
        return self._mapper.ended

    @property
    def pause_after_s(self) -> float | None:
        """Seconds of idle time before the end of this AG-UI run; None if no call waits for the client."""
        mapper = self._mapper
        if not mapper.needs_decision and not mapper.needs_results:
            return None
        is_late = mapper.in_step or (mapper.needs_results and mapper.has_open_calls)
        return PAUSE_IN_STEP_AFTER_S if is_late else PAUSE_AFTER_S

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries as one chunk."""
        return "".join(text for entry in entries for text in self._texts(entry)).encode("ascii")

    def encode_pause(self) -> bytes:
        """End the AG-UI run: with the outcome `interrupt`, or with calls for the client to execute."""
        start, self._start = self._start, []
        return self._frames(_stamped([*start, *self._mapper.pause()], self._at)).encode("ascii")

    def encode_revoked(self) -> bytes:
        """End the response of a reader whose credential was revoked; the run continues."""
        return self._error(REVOKED_MESSAGE, Unauthenticated.code)

    def encode_stopping(self) -> bytes:
        """An error: a stream that only ends looks complete; one that is aborted ends runtimes in Node."""
        return self._error(STOPPING_MESSAGE, ServerStopping.code)

    def message_ids(self, entries: Sequence[LogEntry]) -> set[str]:
        events = (event for entry in entries for event in self._events(entry))
        return {message_id for event in events for message_id in _messages_of(event)}

    def _texts(self, entry: LogEntry) -> Iterator[str]:
        self._at = entry.at
        if entry.position > self._after:
            start, self._start = self._start, []
            yield self._frames(_stamped(start, entry.at))
            yield self._snapshots.pop(entry.position, "")
        yield self._frames(_stamped(self._events(entry), entry.at))

    def _events(self, entry: LogEntry) -> Iterator[core.BaseEvent]:
        discarded = self._discarded_by(entry)
        events = self._mapper.map(_sanitized(entry))
        if entry.position <= self._after:
            # Sent in an earlier AG-UI run: mapped only for its effect on the mapper's state.
            for _ in events:
                pass
            self._mapper.reset()
            return
        for event in events:
            self._shown.add(event)
            yield event
        if discarded is not None and self._shown.discard(*discarded):
            yield core.MessagesSnapshotEvent(messages=self._shown.messages())

    def _discarded_by(self, entry: LogEntry) -> tuple[str, str | None] | None:
        """The message of which the client is to show nothing after this entry, and its subagent."""
        match entry.event:
            case MessageDiscarded(message_id=message_id, parent_tool_call_id=subagent):
                return message_id, subagent
            case RunStarted() if (unfinished := self._mapper.unfinished_text) is not None:
                # Another attempt: the model writes it once more.
                return unfinished, None
            case _:
                return None

    def _error(self, message: str, code: str) -> bytes:
        return self._frames([core.RunErrorEvent(message=message, code=code)]).encode("ascii")

    def _frames(self, events: Iterable[core.BaseEvent]) -> str:
        understood = (each for event in events for each in self._dialect.translate(event))
        return "".join(map(self._dialect.frame, understood))


def _stamped(events: Iterable[core.BaseEvent], at: int) -> Iterator[core.BaseEvent]:
    """The events with the time, in milliseconds, of the entry that they result from; 0: unknown."""
    for event in events:
        event.timestamp = at or None
        yield event


def _sanitized(entry: LogEntry) -> LogEntry:
    """The entry without values that JSON cannot represent; deltas, the most frequent, are only checked."""
    event = entry.event
    if isinstance(event, TextDelta | ThinkingDelta) and is_storable(event.delta):
        return entry
    return entry._replace(event=from_json(to_json(event)))


def _messages_of(event: core.BaseEvent) -> list[str]:
    match event:
        case core.TextMessageStartEvent() | core.ReasoningMessageStartEvent() | core.ToolCallResultEvent():
            return [event.message_id]
        case core.ToolCallStartEvent():
            # Clients put a call without a parent message into a message of its own.
            return [event.tool_call_id]
        case _:
            return []
