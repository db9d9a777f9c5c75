"""ChatRuns: the runs that answer the messages of a chat; a message that is posted again finds its run."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, Unpack
from uuid import uuid5

from app.conversations.branching.placement import Placement, place_message
from app.conversations.branching.records import After, InPlaceOf
from app.conversations.cuts.answer_cuts import ShownAnswer
from app.events import PermissionRequest
from app.executors.inbox import RunEnded
from app.executors.port import NO_SCHEMAS, RunSchemas
from app.executors.waiting.records import PermissionDecided
from app.graphs.catalog import GraphCatalog
from app.graphs.spec import GraphSpec
from app.ids import AccountId, RunId, RunKey
from app.platform.db import Database
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest, OnDisconnect
from app.runs.commands.records import Decide
from app.runs.commands.service import RunCommands, RunNotFound
from app.runs.conversations.service import ConversationNotFound, ConversationService
from app.runs.conversations.view import ConversationView
from app.runs.records import RunRecord
from app.runs.repository import existing_runs
from app.runs.requests.codec import RequestCodec
from app.runs.requests.posted import MessageOrigin, Posting, RunIdTaken
from app.runs.service import RunService
from app.runs.unanswered_tools.service import AbandonedRuns

MESSAGE_ID_CHARS = 200
"""How long the client's id of a message may be."""

_ANSWERS_AT_ONCE = 16
"""How many answers of a message are looked for first; then twice as many, and so on."""


class BuildRequest(Protocol):
    """Builds the request of a posted message; takes long for large attachments."""

    def __call__(self, first_new: int, *, with_history: bool) -> GraphRunRequest:
        """From the messages since this index; `with_history`: those before the last one are earlier turns."""
        ...


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat with one graph; `state_key` names its conversation."""

    graph_id: str
    state_key: str


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """The last answer that a client shows before a message."""

    message_id: str
    text: str
    calls: int
    """How many tool calls it has."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A user's message, and whether another answer to it is requested."""

    chat: Chat
    message_id: str
    regenerate: bool
    posted: Sequence[str]
    """The ids of the messages that the client shows, up to this one."""
    first_unanswered: int
    """The index of the first of the user's messages at its end that the client shows without an answer.

    That of the message itself where the client is sent what it does not show.
    """
    is_whole_view: bool
    """Whether the client always posts all that it shows."""
    chars: int
    """About how many characters the posted messages have, attachments included."""
    build_request: BuildRequest
    answer_before: ShownMessage | None = None
    """Where the client's messages have the ids of runs: the answer that it may have stopped reading."""
    cancels_earlier: bool = False
    """Whether the user has left the active runs of the chat."""
    schemas: RunSchemas = NO_SCHEMAS
    """Those of its client tools."""


@dataclass(frozen=True, slots=True)
class DecidedRun:
    """A run about some of whose calls a person has decided."""

    record: RunRecord
    after: int
    """The position of the last of these requests, which its client has seen; 0 if they are lost."""
    request_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ChatRuns:
    """Starts, finds and controls the runs of chats."""

    database: Database
    runs: RunService
    commands: RunCommands
    conversations: ConversationService
    codec: RequestCodec
    abandoned: AbandonedRuns
    graphs: GraphCatalog
    on_disconnect: OnDisconnect
    """What a run does when its readers leave, unless its request or its graph decides."""

    async def start(self, caller: Principal, message: ChatMessage, **posting: Unpack[Posting]) -> RunRecord:
        """Start the run that answers a message, or join it.

        Raises the errors of `RunService.start`.
        """
        alone = await self._fingerprint_alone(message)
        regenerated = hashlib.sha256(alone + b"regenerate").digest()
        fingerprint = regenerated if message.regenerate else alone
        wanted, is_keyed = {fingerprint, regenerated}, bool(posting.get("idempotency_key"))
        while True:
            run_id = None
            if not is_keyed:
                run_id, fingerprint = await self._find_run(caller, message, fingerprint, joins=wanted)
            placement = await self._place(caller, message)
            request = await self._build_request(message, placement, run_id)
            shown = await self._partly_shown(caller, message, placement)
            try:
                origin = MessageOrigin(
                    *(placement.place, message.message_id, fingerprint, shown), schemas=message.schemas
                )
                record = await self.runs.start(caller, request, origin=origin, **posting)
            except RunIdTaken:
                if is_keyed:
                    raise
                # Another edit of this message was first; this one is the next.
                continue
            self.abandoned.look()
            return record

    async def start_as(
        self, caller: Principal, message: ChatMessage, run_id: str, **posting: Unpack[Posting]
    ) -> tuple[RunRecord, Placement]:
        """Start the run with this id, which the client has chosen, or join it; also returns its place.

        Raises the errors of `RunService.start`.
        """
        placement = await self._place(caller, message)
        request = await self._build_request(message, placement, run_id)
        fingerprint = await self._fingerprint_alone(message)
        origin = MessageOrigin(
            *(placement.place, message.message_id, fingerprint),
            cancels_earlier=message.cancels_earlier,
            schemas=message.schemas,
        )
        record = await self.runs.start(caller, request, origin=origin, **posting)
        self.abandoned.look()
        return record, placement

    async def _fingerprint_alone(self, message: ChatMessage) -> bytes:
        """Of the message without those before it, which another post of it may have or not."""
        alone = await self._build(message, len(message.posted) - 1, with_history=False)
        return await self.codec.fingerprint(alone)

    async def _build_request(
        self, message: ChatMessage, placement: Placement, run_id: str | None
    ) -> GraphRunRequest:
        with_history = placement.place == After(None)
        request = await self._build(message, placement.first_new, with_history=with_history)
        policy = request.on_disconnect
        if (graph := self.graphs.find(request.graph_id)) is not None:
            policy = on_disconnect(policy, graph, self.on_disconnect)
        return request.model_copy(update={"run_id": run_id, "on_disconnect": policy})

    async def _build(self, message: ChatMessage, first_new: int, *, with_history: bool) -> GraphRunRequest:
        build = partial(message.build_request, first_new, with_history=with_history)
        return await self.codec.build(build, messages=len(message.posted) - first_new, chars=message.chars)

    async def _place(self, caller: Principal, message: ChatMessage) -> Placement:
        is_whole_view, posted = message.is_whole_view, message.posted
        # Who does not post all that it shows may show the answers.
        since = message.first_unanswered if is_whole_view else len(posted)
        known = await self.conversations.find_messages(
            caller, message.chat.state_key, posted, first_unanswered=since
        )
        placement = place_message(posted, known=known, is_whole_view=is_whole_view)
        if placement.place is None and (answer := known.runs.get(message.message_id)) is not None:
            return Placement(InPlaceOf(answer), 0)
        return placement

    async def _partly_shown(
        self, caller: Principal, message: ChatMessage, placement: Placement
    ) -> ShownAnswer | None:
        """What the client shows of the answer that the message follows, unless it has its end."""
        answer = message.answer_before
        if answer is None or placement.place != After(RunId(answer.message_id)):
            return None
        try:
            record = await self.runs.get(RunKey(caller.account_id, RunId(answer.message_id)))
        except RunNotFound:
            return None
        end = record.final.content.strip() if record.final is not None and record.final.ok else ""
        if end and answer.text.rstrip().endswith(end):
            return None
        return ShownAnswer.of(record.key.run_id, answer.text, calls=answer.calls)

    async def decide(
        self, caller: Principal, chat: Chat, run: RunKey, *, decisions: Sequence[Decide]
    ) -> DecidedRun:
        """Apply decisions to a run of this chat; those that come too late have no effect.

        So have those about requests of an attempt that is over. Raises `RunNotFound`, `RunDeleted`,
        `ScopeMissing`, `PermissionNotFound`.
        """
        record = await self.runs.get(run)
        if Chat(record.graph_id, record.state_key or "") != chat:
            raise RunNotFound
        caller.require_reading(record.api_key_id, record.labels.end_user)
        requested = {
            event.request_id: position
            for position, event, _ in await self.runs.events(run)
            if isinstance(event, PermissionRequest)
        }
        with suppress(RunEnded):
            for decision in decisions:
                # The stream shows an earlier decision.
                with suppress(PermissionDecided):
                    await self.commands.submit(run, decision)
        request_ids = frozenset(decision.request_id for decision in decisions)
        after = max((requested[each] for each in request_ids & requested.keys()), default=0)
        return DecidedRun(record, after, request_ids)

    async def active_runs(self, caller: Principal, chat: Chat) -> list[RunRecord]:
        """Running and waiting runs of this chat, oldest first; for a token those of its end user."""
        runs = await self.conversations.active_runs(caller.account_id, chat.state_key)
        return [
            run
            for run in runs
            if run.graph_id == chat.graph_id and caller.end_user in {None, run.labels.end_user}
        ]

    async def view(self, caller: Principal, chat: Chat) -> ConversationView:
        """The messages of this chat; raises `ConversationNotFound`."""
        view = await self.conversations.view(caller.account_id, chat.state_key)
        if all(run.graph_id != chat.graph_id for run in view.runs):
            raise ConversationNotFound
        return view

    async def stop(self, caller: Principal, chat: Chat) -> RunRecord | None:
        """Cancel the running and waiting runs of this chat; returns the last one, None without any."""
        runs = await self.active_runs(caller, chat)
        # Last first, so that no waiting run starts meanwhile.
        stopped = [await self.commands.stop(run.key, "cancel") for run in reversed(runs)]
        return stopped[0] if stopped else None

    async def _find_run(
        self, caller: Principal, message: ChatMessage, fingerprint: bytes, *, joins: Collection[bytes]
    ) -> tuple[RunId, bytes]:
        """The id of the message's latest answer if this post requests that one, or of the next answer.

        And its fingerprint: of a run to join it is one of `joins`.

        A message that is posted again joins its run. A regenerated answer is one that another post may join
        as long as it is active: once it has ended, the next post is a person's who wants yet another one. A
        run that the chat does not show, because either of them was deleted, answers nothing any more.
        """
        latest, next_id = await latest_answer(
            self.database, caller.account_id, message.chat, message_id=message.message_id
        )
        if latest is not None:
            run = await self.runs.get(RunKey(caller.account_id, latest))
            caller.require_reading(run.api_key_id, run.labels.end_user)
            is_over = message.regenerate and run.finished
            if run.request_hash in joins and not is_over and run.contents_deleted_at is None:
                return latest, run.request_hash
        return next_id, fingerprint


def on_disconnect(
    requested: OnDisconnect | None, spec: GraphSpec, default: OnDisconnect
) -> OnDisconnect | None:
    """What a run of a chat does: as requested, or its graph's default, or the server's.

    None for `continue`, which runs do without the field.
    """
    chosen = requested or spec.on_disconnect or default
    return None if chosen == "continue" else chosen


async def latest_answer(
    database: Database, account_id: AccountId, chat: Chat, *, message_id: str
) -> tuple[RunId | None, RunId]:
    """The run id of a message's latest answer, None without any; and that of the next one."""
    ids = answer_ids(account_id, chat, message_id)
    latest, count = None, _ANSWERS_AT_ONCE
    while True:
        batch = list(islice(ids, count))
        async with database.read() as reader:
            existing = await existing_runs(reader, account_id, batch)
        for run_id in batch:
            if run_id not in existing:
                return latest, run_id
            latest = run_id
        count *= 2


def answer_ids(account_id: AccountId, chat: Chat, message_id: str) -> Iterator[RunId]:
    """Yields without end the run ids of a message's answers: derived from the message, one per repetition."""
    answer_id = uuid5(account_id, f"{chat.graph_id}\n{chat.state_key}\n{message_id}")
    while True:
        yield RunId(str(answer_id))
        answer_id = uuid5(answer_id, "again")
