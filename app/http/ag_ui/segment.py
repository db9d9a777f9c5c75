"""RunSegment: the part of a run that one AG-UI run covers, and how it starts."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ag_ui.core import Message

from app.bootstrap.services import Services
from app.http.ag_ui.encoder import AgUiEncoder
from app.http.ag_ui.input import (
    AgUiInput,
    build_request,
    require_no_system,
    up_to_last_user_message,
    without_messages,
)
from app.ids import RunId, RunKey
from app.principal import Principal
from app.runs.commands.service import RunNotFound
from app.streams.port import LogEntry
from app.telemetry.trace_context import CallerTrace


@dataclass(frozen=True, slots=True)
class RunSegment:
    """The part of a run that follows a position."""

    run: RunKey
    after: int = 0
    """The last position of the previous AG-UI run."""
    entries: Sequence[LogEntry] = ()
    """The run's entries so far, from the first."""

    def encoder(self, posted: AgUiInput) -> AgUiEncoder:
        """The encoder for this client, with a snapshot if it has received some of the messages already."""
        known = self._message_ids(posted)
        if any(message.id in known for message in posted.messages):
            return self._encoder(posted, snapshot=without_messages(posted.messages, known))
        return self._encoder(posted)

    def new_messages(self, posted: AgUiInput) -> list[Message]:
        """The posted messages without those that are responses of this segment."""
        return up_to_last_user_message(without_messages(posted.messages, self._message_ids(posted)))

    def _message_ids(self, posted: AgUiInput) -> set[str]:
        return self._encoder(posted).message_ids(self.entries)

    def _encoder(self, posted: AgUiInput, *, snapshot: Sequence[Message] | None = None) -> AgUiEncoder:
        return AgUiEncoder(
            thread_id=posted.thread_id,
            run_id=posted.run_id,
            our_run_id=self.run.run_id,
            after=self.after,
            snapshot=snapshot,
        )


async def start_segment(
    services: Services,
    caller: Principal,
    graph_id: str,
    *,
    posted: AgUiInput,
    request_id: str,
    trace: CallerTrace | None,
) -> RunSegment:
    """Start the posted run, or join it: a client that reconnects also posts what it has received."""
    if (spec := services.graphs.find(graph_id)) is not None:
        require_no_system(posted, spec)
    segment, messages = RunSegment(RunKey(caller.account_id, RunId(posted.run_id))), posted.messages
    with suppress(RunNotFound):
        segment = RunSegment(segment.run, entries=await services.runs.events(segment.run))
        messages = segment.new_messages(posted)
    request = build_request(graph_id, posted, messages)
    await services.runs.start(caller, request, request_id=request_id, caller_trace=trace)
    return segment
