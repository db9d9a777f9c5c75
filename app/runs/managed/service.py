"""ManagedSessions: creates and changes sessions of Managed Agents, and passes messages to their runs."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Final, NamedTuple, Unpack
from uuid import UUID

from app.billing.reports.service import BillingReports
from app.conversations.records import Conversation
from app.conversations.repository import (
    find_conversation,
    insert_conversation,
    lock_conversation,
    update_conversation,
)
from app.errors import Conflict, PaymentRequired, Unavailable
from app.events import UserMessageDelivered
from app.executors.inbox import RunEnded
from app.graphs.catalog import GraphCatalog
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.clock.clock import Clock
from app.platform.db import Database, Reader
from app.requests.messages import ContentPart, Message
from app.requests.principal import GraphNotAllowed, Principal
from app.requests.run_request import GraphRunRequest, RunLimits
from app.runs.commands.records import Send
from app.runs.commands.service import RunCommands
from app.runs.conversations.repository import find_turns
from app.runs.conversations.service import ConversationBusy, ConversationNotFound, ConversationService
from app.runs.conversations.view import require_reading
from app.runs.deletion.service import RunDeleted
from app.runs.managed.records import PREFIX, ManagedSession, SessionFilter, SessionSettings, SessionTurn
from app.runs.managed.repository import chosen_sessions, turns_in
from app.runs.managed.turns import NewTurns
from app.runs.records import UNFINISHED, RunRecord
from app.runs.requests.posted import BegunSession, MessageOrigin, Posting
from app.runs.service import RunService, id_of_key, run_of_key

_SMALLEST_USD: Final = Decimal("1e-10")
_TRIES: Final = 16
_SETTLE_PAUSE_S: Final = 0.1
_SETTLED_AFTER: Final = timedelta(minutes=1)
_REPEATED_WITHIN: Final = timedelta(hours=1)
"""How long ago a run has ended that may have a message which is posted again."""


class SessionArchived(Conflict):
    """This session is archived: it takes no more events."""

    code = "session_archived"


class SessionBudgetReached(PaymentRequired):
    """The budget of this session is used up: raise budget.max_list_cost."""

    code = "session_budget_reached"


class SessionNotSettled(Unavailable):
    """What the last run of this session has cost is being written; try again."""


class SaidMessage(NamedTuple):
    """A message and the run that gets it; `message_id` is None for the one that has started the run."""

    run_id: RunId
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class ManagedSessions:
    """The sessions of all accounts."""

    database: Database
    runs: RunService
    commands: RunCommands
    conversations: ConversationService
    billing: BillingReports
    graphs: GraphCatalog
    turns: NewTurns
    clock: Clock
    settle_tries: int = 50
    """How often receipts that are not there yet are looked for."""

    async def create(
        self,
        caller: Principal,
        settings: SessionSettings,
        *,
        title: str | None,
        **posting: Unpack[Posting],
    ) -> ManagedSession:
        """Create a session without a run; raises `GraphNotAllowed`, `GraphNotFound`.

        The same request with the same `Idempotency-Key` gets the same session.
        """
        self._require_graph(caller, settings)
        settings = settings.model_copy(update={"end_user": caller.own_end_user})
        new = Conversation.without_runs(
            *(caller.account_id, PREFIX),
            title=title,
            executor=settings.graph_id.partition(":")[0],
            managed=settings.stored(),
        )
        new = replace(new, state_key=_id_of_session(caller, posting))
        async with self.database.transaction() as tx:
            inserted = await insert_conversation(tx, new)
        return (
            await self.get(caller, new.state_key) if inserted is None else ManagedSession(inserted, settings)
        )

    async def start(
        self,
        caller: Principal,
        settings: SessionSettings,
        content: str | list[ContentPart],
        *,
        title: str | None,
        **posting: Unpack[Posting],
    ) -> str:
        """Create a session with its first run and return its id; raises what `RunService.start` raises.

        There is no session without that run, whatever it is refused for.
        """
        self._require_graph(caller, settings)
        session_id = _id_of_session(caller, posting)
        request = _request_of(settings, session_id, content, left_usd=settings.budget_usd)
        begun = BegunSession(settings.stored(), title=title)
        await self.runs.start(caller, request, origin=MessageOrigin(begins=begun), **posting)
        return session_id

    async def get(self, caller: Principal, session_id: str) -> ManagedSession:
        """A session; raises `ConversationNotFound`, and `ScopeMissing` if the caller may not read it."""
        async with self.database.snapshot() as reader:
            found = await find_conversation(reader, caller.account_id, session_id)
            conversation, settings = await _readable(reader, caller, found)
            turns = await turns_in(reader, caller.account_id, [session_id])
        charges = await self.billing.totals(caller.account_id, [each.run_id for each in turns])
        return ManagedSession(conversation, settings, turns, charges)

    async def page(
        self, caller: Principal, chosen: SessionFilter, *, limit: int
    ) -> tuple[list[ManagedSession], bool]:
        """The first chosen sessions of the caller's account, and whether there are more."""
        async with self.database.snapshot() as reader:
            found = await chosen_sessions(reader, caller.account_id, chosen, limit=limit + 1)
            has_more, found = len(found) > limit, found[:limit]
            turns = await turns_in(reader, caller.account_id, [each.state_key for each in found])
        charges = await self.billing.totals(caller.account_id, [each.run_id for each in turns])
        listed = []
        for each in found:
            own = [turn for turn in turns if turn.state_key == each.state_key]
            listed.append(ManagedSession(each, _settings(each), own, charges))
        return listed, has_more

    async def change(
        self,
        caller: Principal,
        session_id: str,
        changed: Callable[[SessionSettings], SessionSettings],
        *,
        title: Callable[[str | None], str | None] = lambda title: title,
    ) -> None:
        """Change a session; its next runs have the new settings. Raises what `get` and `changed` raise."""
        async with self.database.transaction() as tx:
            found = await lock_conversation(tx, caller.account_id, session_id)
            conversation, settings = await _readable(tx, caller, found)
            managed = changed(settings).stored()
            await update_conversation(tx, conversation, managed=managed, title=title(conversation.title))

    async def say(
        self,
        caller: Principal,
        session_id: str,
        content: str | list[ContentPart],
        **posting: Unpack[Posting],
    ) -> SaidMessage:
        """Pass a message to the run that is active, or start the next one.

        At most one run is active at a time, so what is left of a budget is known when one starts. Raises
        what `RunService.start` and `RunCommands.submit` raise, `SessionArchived`, `SessionBudgetReached`,
        `SessionNotSettled`.
        """
        if (again := await self.said_before(caller, session_id, **posting)) is not None:
            return again
        message_id = _id_of_message(caller, posting) or str(new_uuid())
        for _ in range(_TRIES):
            session = await self.get(caller, session_id)
            if session.settings.archived_at is not None:
                raise SessionArchived
            if (active := await self.active_run(caller, session)) is None:
                with suppress(ConversationBusy):
                    return await self._start(caller, session, content, posting)
                continue
            if active.key.run_id == id_of_key(caller, posting):
                # The same request, posted twice at once.
                return SaidMessage(active.key.run_id)
            command = Send(message_id=message_id, content=content, priority="next")
            try:
                await self.commands.submit(active.key, command)
            except RunEnded:
                await self.runs.wait(active.key)
            else:
                return SaidMessage(active.key.run_id, command.message_id)
        raise ConversationBusy

    async def said_before(
        self, caller: Principal, session_id: str, **posting: Unpack[Posting]
    ) -> SaidMessage | None:
        """The run that has the message of the same request with the same `Idempotency-Key`.

        None without any; raises what `get` and `RunService.posted_before` raise.
        """
        if (message_id := _id_of_message(caller, posting)) is None:
            return None
        if (run := await self.runs.posted_before(caller, **posting)) is not None:
            return SaidMessage(run.key.run_id)
        since = self.clock.database_now() - _REPEATED_WITHIN
        for turn in reversed((await self.get(caller, session_id)).turns):
            if turn.ended_at is not None and turn.ended_at < since:
                break
            with suppress(RunDeleted):
                for entry in await self.runs.events(RunKey(caller.account_id, turn.run_id)):
                    if isinstance(entry.event, UserMessageDelivered) and entry.event.message_id == message_id:
                        return SaidMessage(turn.run_id, message_id)
        return None

    async def turns_after(self, session: ManagedSession, turn: int) -> list[SessionTurn]:
        """The runs of a session that were accepted after this one."""
        account_id = session.conversation.account_id
        async with self.database.read() as reader:
            found = await turns_in(reader, account_id, [session.id])
        return [each for each in found if each.turn > turn]

    async def questions(self, account_id: AccountId, run_ids: Sequence[RunId]) -> dict[str, str]:
        """How the messages begin that have started these runs, by run; none of those that are deleted."""
        async with self.database.read() as reader:
            found = await find_turns(reader, account_id, run_ids)
        return {each.key.run_id: each.question for each in found}

    async def active_run(self, caller: Principal, session: ManagedSession) -> RunRecord | None:
        """The run of a session that has not ended; raises `ScopeMissing` if the caller may not read it."""
        if not any(each.status in UNFINISHED for each in session.turns):
            return None
        found = await self.conversations.active_runs(caller.account_id, session.id)
        for run in found:
            caller.require_reading(run.api_key_id, run.labels.end_user)
        return found[0] if found else None

    async def settled(self, caller: Principal, session_id: str) -> ManagedSession:
        """The session once all receipts of its runs are there, or after some seconds; raises as `get`."""
        tries, session = self.settle_tries, await self.get(caller, session_id)
        while session.unsettled_since is not None and tries:
            tries -= 1
            await asyncio.sleep(_SETTLE_PAUSE_S)
            session = await self.get(caller, session_id)
        return session

    def _require_graph(self, caller: Principal, settings: SessionSettings) -> None:
        if not caller.terms.allows_graph(settings.graph_id):
            raise GraphNotAllowed
        self.graphs.get(settings.graph_id)

    async def _start(
        self, caller: Principal, session: ManagedSession, content: str | list[ContentPart], posting: Posting
    ) -> SaidMessage:
        left = session.left_usd
        if left is not None:
            settled = await self.settled(caller, session.id)
            since, left = settled.unsettled_since, settled.left_usd or Decimal(0)
            # The journal of a machine that was lost may never come.
            if since is not None and self.clock.database_now() - since < _SETTLED_AFTER:
                raise SessionNotSettled(retry_after_s=1)
            left = left.quantize(_SMALLEST_USD, rounding=ROUND_DOWN)
            if left <= 0:
                raise SessionBudgetReached
        request = _request_of(session.settings, session.id, content, left_usd=left)
        record = await self.runs.start(caller, request, **posting)
        self.turns.notice(caller.account_id, session.id)
        return SaidMessage(record.key.run_id)


def _request_of(
    settings: SessionSettings, session_id: str, content: str | list[ContentPart], *, left_usd: Decimal | None
) -> GraphRunRequest:
    return GraphRunRequest.of(
        graph_id=settings.graph_id,
        messages=[Message.of(role="user", content=content)],
        state_key=session_id,
        on_conflict="reject",
        model=settings.model,
        client_tools=settings.tools,
        metadata=dict(settings.metadata) or None,
        limits=RunLimits() if left_usd is None else RunLimits.of(max_budget_usd=left_usd, cover_calls=True),
    )


def _id_of_session(caller: Principal, posting: Posting) -> str:
    fingerprint = posting.get("fingerprint")
    own = new_uuid() if fingerprint is None else UUID(run_of_key(caller, fingerprint.hex()))
    return f"{PREFIX}{own.hex}"


def _id_of_message(caller: Principal, posting: Posting) -> str | None:
    """The id under which a message with an `Idempotency-Key` is passed to a run."""
    key, fingerprint = posting.get("idempotency_key"), posting.get("fingerprint")
    return None if key is None or fingerprint is None else run_of_key(caller, f"{key}\n{fingerprint.hex()}")


def _settings(conversation: Conversation) -> SessionSettings:
    return SessionSettings.model_validate(conversation.managed)


async def _readable(
    reader: Reader, caller: Principal, conversation: Conversation | None
) -> tuple[Conversation, SessionSettings]:
    """A session that the caller may read."""
    if conversation is None or conversation.managed is None:
        raise ConversationNotFound
    settings = _settings(conversation)
    # Without a run nothing else says whose it is.
    caller.require_reading(settings.api_key_id)
    await require_reading(reader, conversation, caller)
    return conversation, settings
