"""RunAcceptance: one transaction stores a planned run with its turn, workspace and credit, or nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from app.billing.budgets.records import Amount
from app.billing.credit.ledger import CreditLedger
from app.billing.token_rates.service import require_tokens
from app.conversations.repository import update_conversation
from app.executors.port import RunPlan
from app.ids import AccountId, ApiKeyId, RunKey
from app.platform.db import Database, NothingStored, Transaction
from app.platform.objects.documents import StoredDocument
from app.platform.storage.service import StorageQuota
from app.requests.attribution import RunLabels
from app.runs.commands.repository import request_cancels
from app.runs.conversations.records import TakenTurn, new_turn
from app.runs.conversations.service import ConversationService
from app.runs.dispatch.insertion.records import AtOnce
from app.runs.dispatch.queue import RunQueue
from app.runs.records import DEFAULT_PRIORITY, QUESTION_CHARS, NewRun, RunRecord
from app.runs.requests.codec import RequestCodec
from app.runs.requests.posted import PostedRun
from app.workspaces.service import Workspaces

_LARGE_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """A run that is in the database."""

    record: RunRecord
    plan: RunPlan
    to_cancel: Sequence[RunKey] = ()
    """Earlier runs of its conversation that it replaces, whose cancellation is stored with it."""


class _IdTaken(Exception):
    """There is a run with this id: whatever was done for another one is undone."""


@dataclass(frozen=True, slots=True)
class RunAcceptance:
    """Accepts runs."""

    database: Database
    codec: RequestCodec
    conversations: ConversationService
    ledger: CreditLedger
    storage: StorageQuota
    workspaces: Workspaces
    require_active_key: Callable[[Transaction, ApiKeyId], Awaitable[None]]
    """Raises for a revoked key, and blocks its revocation until the commit."""
    queue: RunQueue
    _budgeted: set[AccountId] = field(default_factory=set, init=False)
    """Accounts whose last run needed a budget."""

    async def accept(
        self, posted: PostedRun, plan: RunPlan, *, has_place: bool = False
    ) -> AcceptedRun | None:
        """Insert the run and reserve its credits; None if its id is taken.

        `has_place`: this process may execute it at once; then it is stored as running, unless it has to wait
        for other runs. Raises `InsufficientCredits`, `BudgetSpent`, `ConversationBusy`, `ConversationFull`,
        `ContentsUnavailable`, `QueueFull`, `ScopeMissing`, `StorageFull`, `TokensUsedUp`, and `Invalid` for
        the run that it is to replace.
        """
        is_large = posted.request.size > _LARGE_BYTES
        try:
            async with self.codec.large_request(posted.run.account_id) if is_large else nullcontext():
                document = await self.codec.encode(posted.run.account_id, posted.request)
                new = replace(self._new_run(posted, plan, document), starts_at_once=has_place)
                files = posted.request.files if plan.spec.native_tools else ()
                uploads = {file.path: file.content for file in files}
                await self.workspaces.write_uploads(posted.run.account_id, uploads)
                accepted = await self._store_at_once(posted, plan, new)
                return accepted or await self._store(posted, plan, new, uploads)
        except _IdTaken:
            return None

    async def _store_at_once(self, posted: PostedRun, plan: RunPlan, new: NewRun) -> AcceptedRun | None:
        """Store a run with one statement that checks everything; None for a run that needs more.

        What it cannot decide is left to the transaction, which alone knows the errors.
        """
        if (given := self._at_once(posted, plan, new)) is None:
            return None
        checked_at = asyncio.get_running_loop().time()
        try:
            async with self.database.write() as tx:
                stored = await self.queue.insert_at_once(tx, new, given)
        except NothingStored:
            return None
        if stored.conversation is not None:
            shown = posted.origin.shown_answer
            # What is not shown is cut from the transcript first.
            beginning = stored.beginning if shown is None else None
            plan = replace(plan, conversation=stored.conversation, beginning=beginning, shown_answer=shown)
        reserved = None if stored.reserved is None else Amount(stored.reserved, 0)
        return _accepted(stored.record, plan, reserved, checked_at=checked_at)

    def _at_once(self, posted: PostedRun, plan: RunPlan, new: NewRun) -> AtOnce | None:
        """What one statement is to check; None if more has to be stored, or to be looked at."""
        caller, request, origin = posted.caller, posted.request, posted.origin
        has_tokens = caller.terms.tokens_per_minute is not None
        if plan.spec.native_tools or new.objects or has_tokens or caller.account_id in self._budgeted:
            return None
        turn = None
        if request.state_key is not None:
            follows = request.on_conflict == "enqueue" and not origin.cancels_earlier and origin.place is None
            if not follows or not caller.reads_all:
                return None
            turn = new_turn(request, request.state_key)
        return AtOnce(
            request.size,
            self.storage.max_bytes,
            max(plan.credits_to_reserve, 1),
            self.ledger.clock.now(),
            turn,
            self.conversations.max_bytes,
        )

    async def _store(
        self, posted: PostedRun, plan: RunPlan, new: NewRun, uploads: Mapping[str, bytes]
    ) -> AcceptedRun:
        caller, request, origin = posted.caller, posted.request, posted.origin
        turn: TakenTurn | None = None
        async with self.database.transaction() as tx:
            # Before the insert: a revocation that stops the key's runs misses none.
            await self.require_active_key(tx, caller.api_key_id)
            await self.storage.require_room(tx, caller.account_id, request.size)
            if request.state_key is not None:
                turn = await self.conversations.take_turn(
                    tx, caller, request.state_key, request=request, place=origin.place
                )
                turn = replace(turn, replaces=turn.replaces or origin.cancels_earlier)
                plan = replace(plan, conversation=turn.conversation, shown_answer=origin.shown_answer)
                if (begun := origin.begins) is not None:
                    # Those of clients have the title that they are given, or none.
                    title = begun.title if begun.deployment_id is None else turn.conversation.title
                    columns = {"managed": begun.managed, "deployment_id": begun.deployment_id}
                    await update_conversation(tx, turn.conversation, title=title, **columns)
                # Before the queue and the credit of the account are locked: the same order as everywhere.
                await request_cancels(tx, turn.to_cancel)
            if (record := await self.queue.insert(tx, replace(new, conversation=plan.conversation))) is None:
                raise _IdTaken
            # After the insert: a request that only joins a run uses nothing.
            await require_tokens(tx, caller)
            await self.codec.hold(tx, plan.run.account_id, new.objects)
            if plan.spec.native_tools:
                await self.workspaces.reserve(tx, plan.run, plan.spec.workspace, uploads)
            checked_at = asyncio.get_running_loop().time()
            reserved = await self.ledger.reserve(tx, plan.run, plan.credits_to_reserve)
        is_budgeted = reserved is not None and reserved.has_budgets
        (self._budgeted.add if is_budgeted else self._budgeted.discard)(caller.account_id)
        amount = None if reserved is None else reserved.amount
        record = replace(record, reached=() if reserved is None else reserved.reached)
        accepted = _accepted(record, plan, amount, checked_at=checked_at)
        return replace(accepted, to_cancel=turn.to_cancel if turn else ())

    def _new_run(self, posted: PostedRun, plan: RunPlan, document: StoredDocument) -> NewRun:
        request, origin = posted.request, posted.origin
        return NewRun(
            key=plan.run,
            api_key_id=plan.attribution.api_key_id,
            graph_id=request.graph_id,
            model=plan.model,
            request=document.text,
            objects=document.objects,
            question=request.messages[-1].text[:QUESTION_CHARS],
            request_hash=posted.fingerprint,
            request_id=plan.request_id,
            process_id=self.queue.process_id,
            priority=request.priority or DEFAULT_PRIORITY,
            start_after=request.start_after,
            caller_trace=None if plan.trace is None else plan.trace.caller,
            stops_unread=request.on_disconnect == "cancel",
            message_id=origin.message_id,
            shown_answer=origin.shown_answer,
            labels=RunLabels.of(request),
        )


def _accepted(record: RunRecord, plan: RunPlan, reserved: Amount | None, *, checked_at: float) -> AcceptedRun:
    """The run with what the ledger has answered: what it has reserved, or that there is no limit."""
    unlimited_at = checked_at if reserved is None else None
    return AcceptedRun(
        record, replace(plan, reserved=reserved, unlimited_at=unlimited_at, accepted_at=record.created_at)
    )
