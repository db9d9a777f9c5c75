"""RunSegment: the part of a run that one AG-UI run covers, and how it starts."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from ag_ui.core import Message, ReasoningMessage, UserMessage

from app.bootstrap.services import Services
from app.events import RunStarted
from app.graphs.spec import GraphSpec
from app.http.ag_ui.history import ag_ui_messages, snapshot_for, text_of
from app.http.ag_ui.input import (
    AgUiInput,
    chat_message,
    require_no_system,
    up_to_last_user_message,
    without_messages,
)
from app.http.ag_ui.output.encoder import AgUiEncoder
from app.http.streaming.disconnect import on_disconnect
from app.ids import RunId, RunKey
from app.principal import Principal
from app.requests import GraphRunRequest, OnDisconnect
from app.runs.chats import ChatMessage
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
    message: UserMessage | None = None
    """The message that the run answers; None for what follows a decision."""
    stops_unread: bool = False
    """Whether the run is cancelled when its readers have left."""
    answered: frozenset[str] = frozenset()
    """The calls of client tools whose results the client has posted."""

    def encoder(self, posted: AgUiInput) -> AgUiEncoder:
        """The encoder for this client.

        What follows a decision has a snapshot if the client has received some of its messages already; for
        a whole run, `conversation_before` gives one.
        """
        if self.message is not None:
            return self._encoder(posted)
        known = self._message_ids(posted)
        if any(message.id in known for message in posted.messages):
            return self._encoder(posted, snapshot=without_messages(posted.messages, known))
        return self._encoder(posted)

    def new_messages(self, posted: AgUiInput) -> list[Message]:
        """The posted messages without those that are responses of this segment."""
        return up_to_last_user_message(without_messages(posted.messages, self._message_ids(posted)))

    def received_reasoning(self, posted: AgUiInput) -> list[Message]:
        """The reasoning of this run that the client has received before."""
        known = self._message_ids(posted)
        return [each for each in posted.messages if isinstance(each, ReasoningMessage) and each.id in known]

    def _message_ids(self, posted: AgUiInput) -> set[str]:
        return self._encoder(posted).message_ids(self.entries)

    def _encoder(self, posted: AgUiInput, *, snapshot: Sequence[Message] | None = None) -> AgUiEncoder:
        return AgUiEncoder(
            thread_id=posted.thread_id,
            run_id=posted.run_id,
            our_run_id=self.run.run_id,
            after=self.after,
            answered=self.answered,
            names_pending=posted.protocol_version is not None,
            snapshot=snapshot,
            dialect=posted.dialect,
            posted=posted.messages,
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
    tools = await services.client_tools.usable(caller, graph_id, posted.described_tools)
    message = chat_message(graph_id, posted, messages, tools=tools, rules=services.attachments)
    if spec is not None:
        message = _with_policy(message, spec, services.settings.on_disconnect)
    record, request = await services.chats.start_as(
        caller, message, posted.run_id, request_id=request_id, caller_trace=trace
    )
    await services.readers.cancel_left_before(record)
    answered = _answered(message, messages, request.messages[-1].text)
    return replace(segment, message=answered, stops_unread=record.stops_unread)


def _with_policy(message: ChatMessage, spec: GraphSpec, default: OnDisconnect) -> ChatMessage:
    """The message whose run does what its request, its graph or the server says when clients leave."""

    def build_request(first_new: int, *, with_history: bool) -> GraphRunRequest:
        request = message.build_request(first_new, with_history=with_history)
        policy = on_disconnect(request.on_disconnect, spec, default)
        return request.model_copy(update={"on_disconnect": policy})

    return replace(message, build_request=build_request)


def _answered(message: ChatMessage, messages: Sequence[Message], text: str) -> UserMessage:
    """The message as the client shows it, or with this text if the run has got several of them as one."""
    posted = next(
        each for each in reversed(messages) if isinstance(each, UserMessage) and each.id == message.message_id
    )
    return posted if text_of(posted) == text else UserMessage(id=posted.id, role="user", content=text)


async def conversation_before(
    services: Services, segment: RunSegment, posted: AgUiInput
) -> Sequence[Message] | None:
    """The messages up to the one that the run answers, if the client shows others; otherwise None.

    What the model gets is what the server has: an answer of which the client has read only a part, or the
    messages of another device.
    """
    if segment.message is None:
        return None
    view = await services.conversations.view_before(segment.run, posted.thread_id)
    if view is None:
        return None
    stored = [*ag_ui_messages(view.entries), segment.message]
    return snapshot_for(posted.messages, stored, received=segment.received_reasoning(posted))


async def with_conversation(
    batches: AsyncGenerator[Sequence[LogEntry], None],
    encoder: AgUiEncoder,
    load: Callable[[], Awaitable[Sequence[Message] | None]],
) -> AsyncGenerator[Sequence[LogEntry], None]:
    """The entries of a run. Where it begins, earlier runs have ended, and the encoder gets their messages."""
    is_loaded = False
    async with aclosing(batches):
        async for batch in batches:
            if not is_loaded and any(isinstance(entry.event, RunStarted) for entry in batch):
                encoder.show(await load())
                is_loaded = True
            yield batch
