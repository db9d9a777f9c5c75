"""RunSegment: the part of a run that one AG-UI run covers, and how it starts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog
from ag_ui.core import Message, ReasoningMessage, UserMessage

from app.bootstrap.services import Services
from app.conversations.branching.records import After
from app.errors import Unavailable
from app.events import RunStarted
from app.http.ag_ui.comparison import Snapshot, in_conversation, snapshots_for
from app.http.ag_ui.history import ag_ui_messages, work_size
from app.http.ag_ui.input import (
    AgUiInput,
    chat_message,
    require_no_system,
    up_to_last_user_message,
    without_messages,
    without_system,
)
from app.http.ag_ui.output.encoder import AgUiEncoder
from app.ids import RunId, RunKey
from app.requests.principal import Principal
from app.runs.commands.service import RunNotFound
from app.runs.conversations.page import PageEntry
from app.runs.conversations.view import ConversationView
from app.runs.requests.posted import Posting
from app.streams.port import LogEntry

log = structlog.get_logger(__name__)


_READ_ATTEMPTS: Final = 3
_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class RunSegment:
    """The part of a run that follows a position."""

    run: RunKey
    after: int = 0
    """The last position of the previous AG-UI run."""
    entries: Sequence[LogEntry] = ()
    """The run's entries so far, from the first."""
    new: Sequence[Message] | None = None
    """What the client shows since the last message that the conversation knows, up to the one that the run
    answers; None for what follows a decision."""
    stops_unread: bool = False
    """Whether the run is cancelled when its readers have left."""
    answered: frozenset[str] = frozenset()
    """The calls of client tools whose results the client has posted."""

    def encoder(self, posted: AgUiInput) -> AgUiEncoder:
        return AgUiEncoder(
            thread_id=posted.thread_id,
            run_id=posted.run_id,
            our_run_id=self.run.run_id,
            after=self.after,
            answered=self.answered,
            names_pending=posted.protocol_version is not None,
            dialect=posted.dialect,
            posted=posted.messages,
        )

    def begins_with(self, entry: LogEntry) -> bool:
        """Whether snapshots are sent before this entry: once a run begins, all earlier ones have ended."""
        return entry.position > self.after and (self.new is None or isinstance(entry.event, RunStarted))

    def new_messages(self, posted: AgUiInput) -> list[Message]:
        """The posted messages without those that are responses of this segment."""
        return up_to_last_user_message(without_messages(posted.messages, self._message_ids(posted)))

    def snapshots(self, posted: AgUiInput, before: Sequence[PageEntry]) -> list[Snapshot]:
        """What a client lacks that shows something else than the messages `before` and the new ones.

        For what follows a decision: those up to there, if the client has some of what follows. Without them
        it would append these messages a second time.
        """
        known = self._message_ids(posted)
        if self.new is None:
            is_again = any(message.id in known for message in posted.messages)
            return [without_messages(posted.messages, known)] if is_again else []
        received = [
            each for each in posted.messages if isinstance(each, ReasoningMessage) and each.id in known
        ]
        return snapshots_for(posted.messages, ag_ui_messages(before), self.new, received=received)

    def _message_ids(self, posted: AgUiInput) -> set[str]:
        return self.encoder(posted).message_ids(self.entries)


async def start_segment(
    services: Services,
    caller: Principal,
    graph_id: str,
    *,
    posted: AgUiInput,
    posting: Posting,
) -> RunSegment:
    """Start the posted run, or join it: a client that reconnects also posts what it has received."""
    if (spec := services.graphs.find(graph_id)) is not None:
        require_no_system(posted, spec)
    segment, messages = RunSegment(RunKey(caller.account_id, RunId(posted.run_id))), posted.messages
    with suppress(RunNotFound):
        segment = RunSegment(segment.run, entries=await services.runs.events(segment.run))
        messages = segment.new_messages(posted)
    tools, schemas = await services.client_tools.usable(caller, posted.described_tools)
    message = chat_message(graph_id, posted, messages, tools=tools, rules=services.attachments)
    await services.client_tools.answer_left(caller, message.chat, posted.left_tool_results)
    # It follows interrupts that are all cancelled: the user has left them.
    message = replace(message, cancels_earlier=bool(posted.resume), schemas=schemas)
    record, placement = await services.chats.start_as(caller, message, posted.run_id, **posting)
    await services.readers.cancel_left_before(record)
    new = in_conversation(without_system(messages)[placement.first_new :])
    if placement.place != After(None):
        # At the beginning of a branch the model gets all that was posted, later what the user has written.
        new = [each for each in new if isinstance(each, UserMessage)]
    return replace(segment, new=new, stops_unread=record.stops_unread)


async def show_conversation(
    services: Services, segment: RunSegment, posted: AgUiInput, encoder: AgUiEncoder, entry: LogEntry
) -> None:
    """Send the client snapshots before this entry if it shows something else than the model gets.

    That may be an answer of which the client has read only a part, or the messages of another device.
    """
    before: Sequence[PageEntry] = ()
    if segment.new is not None:
        view = await read_unless_away(
            partial(services.conversations.view_before, segment.run, posted.thread_id)
        )
        if view is None:
            return
        before = view.entries

    def compare() -> None:
        if snapshots := segment.snapshots(posted, before):
            encoder.show(snapshots, entry)

    await services.offload.run(compare, size=work_size(before, posted.messages))


async def read_unless_away(
    read: Callable[[], Awaitable[ConversationView | None]],
) -> ConversationView | None:
    """What is read; None if the database is away for longer than a moment.

    Then the snapshot of the next run corrects the client: the stream of this one is not to end for it.
    """
    for attempts_left in reversed(range(_READ_ATTEMPTS)):
        try:
            return await read()
        except Unavailable as error:
            log.warning("thread.not_compared", reason=error.detail, attempts_left=attempts_left)
        if attempts_left:
            await asyncio.sleep(_RETRY_S)
    return None


async def with_conversation(
    batches: AsyncGenerator[Sequence[LogEntry], None],
    segment: RunSegment,
    show: Callable[[LogEntry], Awaitable[None]],
) -> AsyncGenerator[Sequence[LogEntry], None]:
    """The entries of a run; `show` is called before the client gets the one that its segment begins with."""
    is_shown = False
    async with aclosing(batches):
        async for batch in batches:
            first = next(filter(segment.begins_with, () if is_shown else batch), None)
            if first is not None:
                is_shown = True
                await show(first)
            yield batch
