"""ReceiptQueue: journals usage facts, prices them and holds the receipts until the database has them."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import structlog

from app.billing.prices.price_list import Charge, PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.conflicts import excess_of
from app.billing.receipts.journal import Journal, JournalUnavailable
from app.billing.receipts.journal_records import if_lost
from app.billing.receipts.open_messages.in_memory import OpenMessageChanges, OpenMessages
from app.billing.receipts.records import NewReceipt, RunCharges
from app.ids import AccountId, RunKey
from app.platform.metrics.receipts import ReceiptMetrics
from app.usage.records import ChargedUsage, TokenUsage, UsageFact

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PendingReceipt:
    """A receipt that is not in the database yet, and the fact it was made from."""

    fact: UsageFact
    receipt: NewReceipt
    from_row: bool = False
    """Whether the fact is that of a row of `open_messages`, whose output is estimated. A receipt that exists
    already is at least as good."""
    ended_at: float | None = None
    """When its message ended, by the monotonic clock; None for one of another process."""


class PendingCredits(NamedTuple):
    """Credits that are spent, and not in the database yet."""

    own: int
    """Of the run."""
    others: int
    """Of other runs of its account in this process."""
    own_tokens: int
    """The tokens of the run's."""

    @property
    def total(self) -> int:
        return self.own + self.others


class ReceiptQueue:
    """Turns each usage fact into one receipt for `ReceiptDelivery`.

    A message goes through three states: started, completed, and reported by the executor (`record`).
    Messages that are never reported are queued when their run ends (`flush`).
    """

    def __init__(self, journal: Journal, prices: PriceList, *, metrics: ReceiptMetrics | None = None) -> None:
        self._metrics = metrics or ReceiptMetrics()
        self.open_messages = OpenMessages()
        """The messages that are in progress, for the database."""
        self._journal = journal
        self._prices = prices
        self._unreported: dict[RunKey, dict[str, UsageFact]] = {}
        self._in_progress: set[str] = set()
        self._ended_at: dict[str, float] = {}
        """When messages have ended that are not queued yet."""
        self._waiting_since: dict[str, float] = {}
        """The oldest first, in any case: also refused receipts, and those moved to the end of the queue."""
        self._pending: dict[str, PendingReceipt] = {}
        self._pending_by_run: Counter[RunKey] = Counter()
        self._credits_by_account: Counter[AccountId] = Counter()
        self._refused: dict[str, PendingReceipt] = {}
        self._refused_credits: Counter[AccountId] = Counter()
        self._charges: dict[RunKey, RunCharges] = {}
        self._not_empty = asyncio.Event()
        self._delivered = asyncio.Condition()

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def refused(self) -> int:
        return len(self._refused)

    @property
    def damaged_files(self) -> int:
        """How many files of journals are damaged or cannot be read."""
        return self._journal.damaged_files

    @property
    def journalled(self) -> int:
        """Messages in the journal without a receipt in the database, those in progress too."""
        return self._journal.pending_records

    @property
    def journal_bytes(self) -> int:
        return self._journal.size

    @property
    def oldest_s(self) -> float:
        """For how long the oldest receipt has waited for the database; 0: none waits."""
        since = next(iter(self._waiting_since.values()), None)
        return 0.0 if since is None else time.monotonic() - since

    @property
    def ready(self) -> bool:
        return self._journal.problem is None

    def require_ready(self) -> None:
        """Try the journal again after a failure; raise `JournalUnavailable` if it still cannot be written."""
        self._journal.probe()
        if self._journal.problem is not None:
            raise _unavailable(self._journal.problem)

    def start_message(self, fact: UsageFact, replaces: UsageFact | None = None) -> None:
        """Journal a message that has started: if this process dies, its receipt will be `partial`.

        `replaces` is the fact that stood for the message until now; it is not charged. Raises
        `JournalUnavailable` if the journal cannot be written: the message must not be passed on then.
        """
        if replaces is not None:
            self._take_unreported(replaces)
        self._unreported.setdefault(fact.run, {})[fact.key] = fact
        self._in_progress.add(fact.key)
        self._journal.start_message(fact, replaces=None if replaces is None else replaces.key)
        if replaces is not None and self.open_messages.is_written(replaces.key):
            self._journal.void_message(replaces.key)
        self.open_messages.start(fact, replaces)
        if self._journal.problem is not None:
            if not fact.output_estimated:
                # It is not on disk: into the database at once. An estimate, of a call that has no answer yet,
                # is not what is charged in the end.
                self._enqueue(if_lost(fact, is_complete=False))
            raise _unavailable(self._journal.problem)

    def update_message(self, fact: UsageFact) -> None:
        """Journal the usage so far of a message that has started: if this process dies, it is charged."""
        if fact.key in self._in_progress:
            self._unreported[fact.run][fact.key] = fact
            self._journal.update_message(fact)
            self.open_messages.update(fact)

    def complete_message(self, fact: UsageFact) -> None:
        """Journal a message's final usage: if this process dies, its receipt will be `recovered`."""
        self._unreported.setdefault(fact.run, {})[fact.key] = fact
        self._in_progress.discard(fact.key)
        self._ended_at[fact.key] = time.monotonic()
        self._journal.complete_message(fact)
        self.open_messages.update(fact, is_complete=True)
        if self._journal.problem is not None:
            # It is not on disk: into the database at once.
            self._enqueue(fact)

    def void_message(self, fact: UsageFact) -> None:
        self._take_unreported(fact)
        self._ended_at.pop(fact.key, None)
        if self.open_messages.is_written(fact.key):
            self._journal.void_message(fact.key)
        else:
            self._journal.acknowledge([fact.key])
        self.open_messages.void(fact)

    def record(self, fact: UsageFact) -> None:
        """Journal a fact and queue its receipt. Recording the same message again changes nothing."""
        journalled = self._take_unreported(fact)
        if journalled != fact:
            self._journal.complete_message(fact)
        self._ended_at.setdefault(fact.key, time.monotonic())
        self._enqueue(fact)

    def count_charges(self, run: RunKey) -> None:
        """Sum up from now on what is charged for a run, until `counted_charges`."""
        self._charges[run] = RunCharges()

    def counted_charges(self, run: RunKey) -> ChargedUsage:
        """The sum; nothing more is counted."""
        return self._charges.pop(run, RunCharges()).total

    async def flush(self, run: RunKey, *, within_s: float) -> None:
        """Queue the unreported messages of a run that has ended and wait until its receipts are stored.

        After `within_s` it waits only until they are synced to the journal.
        """
        for fact in self._unreported.pop(run, {}).values():
            self._in_progress.discard(fact.key)
            log.error("receipt.message_unreported", source_reference=fact.source_reference)
            self._enqueue(fact)
        if not await self._wait_for(lambda: not self._pending_by_run[run], within_s):
            await self.sync()

    def recover(self) -> None:
        """Queue the receipts in journals of processes that died; delete what this one has stored."""
        self._journal.renew()
        for fact in self._journal.recover():
            try:
                self._enqueue(fact)
            except Exception:
                # One that cannot be priced must not block the others.
                log.critical("receipt.recovery_failed", source_reference=fact.source_reference, exc_info=True)
        self.open_messages.remove(self._journal.void)

    def confirm(self, changes: OpenMessageChanges) -> None:
        """These changes of `open_messages` are stored."""
        self.open_messages.confirm(changes)
        if changes.void:
            self._journal.acknowledge(changes.void)

    def recover_message(self, fact: UsageFact) -> bool:
        """Queue a message of which only a row is left; False if this process has it, or has removed it.

        It is not journalled: its row stays until its receipt is stored.
        """
        if self.open_messages.is_void(fact.key) or fact.key in self._unreported.get(fact.run, {}):
            return False
        if fact.key in self._pending or fact.key in self._refused:
            return False
        self._enqueue(fact, from_row=True)
        return True

    def pending_credits(self, run: RunKey) -> PendingCredits:
        """Credits that the database does not have yet.

        Those of the run's completed messages and of all queued and refused receipts of its account.
        Unreported messages of other runs are covered by the reservations of those runs.
        """
        completed = [
            fact
            for key, fact in self._unreported.get(run, {}).items()
            if key not in self._pending and key not in self._in_progress
        ]
        waiting = self._credits_by_account[run.account_id] + self._refused_credits[run.account_id]
        own = [*self._waiting_of(run)] if self._pending_by_run[run] or self._refused else []
        queued = sum(each.receipt.charged_credits for each in own)
        most = sum(self._prices.credits_at_most(BilledUsage.of(fact), at=fact.at) for fact in completed)
        tokens = sum(fact.usage.total_tokens for fact in (*completed, *(each.fact for each in own)))
        return PendingCredits(queued + most, waiting - queued, tokens)

    def receipts_of(self, run: RunKey) -> list[PendingReceipt]:
        """The queued receipts of a run."""
        if not self._pending_by_run[run]:
            return []
        return [each for each in self._pending.values() if each.fact.run == run]

    def _waiting_of(self, run: RunKey) -> Iterator[PendingReceipt]:
        for each in (*self._pending.values(), *self._refused.values()):
            if each.fact.run == run:
                yield each

    def charge_excess(self, fact: UsageFact, *, charged: TokenUsage) -> None:
        """A charged message is reported again: what it used more gets a receipt of its own."""
        if fact.usage == charged:
            return
        log.error(
            "receipt.conflict", source_reference=fact.source_reference, charged=charged, reported=fact.usage
        )
        if (more := excess_of(fact, charged)) is not None:
            self._journal.complete_message(more)
            self._enqueue(more)

    async def wait_delivered(self, account_id: AccountId, *, within_s: float) -> None:
        """Wait until no receipt with a charge is queued for an account, `within_s` at most."""
        await self._wait_for(lambda: not self._credits_by_account[account_id], within_s)

    async def wait_stored(self, run: RunKey, *, within_s: float) -> None:
        """Wait until no receipt of a run is queued, `within_s` at most."""
        await self._wait_for(lambda: not self._pending_by_run[run], within_s)

    async def _wait_for(self, is_delivered: Callable[[], bool], within_s: float) -> bool:
        """Wait until this is so; False if it is not by then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._delivered:
                return await self._delivered.wait_for(is_delivered)
        return False

    async def wait_not_empty(self) -> None:
        """Wait until a receipt is queued."""
        await self._not_empty.wait()

    def first(self, limit: int) -> list[PendingReceipt]:
        """The receipts queued longest; they stay queued."""
        return list(islice(self._pending.values(), limit))

    async def acknowledge(self, stored: Sequence[PendingReceipt]) -> None:
        """Remove receipts that are in the database."""
        for each in stored:
            self._waiting_since.pop(each.fact.key, None)
        self._journal.acknowledge(each.fact.key for each in stored)
        self.open_messages.store(each.fact.key for each in stored)
        await self._remove(stored)

    def postpone(self, failed: PendingReceipt) -> None:
        """Move a receipt to the end of the queue."""
        self._pending[failed.fact.key] = self._pending.pop(failed.fact.key)

    async def set_aside(self, refused: PendingReceipt) -> None:
        """Keep a receipt that the database refuses, until `retry_refused`; it still counts as charged."""
        # Written again, so that the segments before need not be kept for it.
        self._journal.complete_message(refused.fact)
        self._refused[refused.fact.key] = refused
        self._refused_credits[refused.fact.run.account_id] += refused.receipt.charged_credits
        await self._remove([refused])

    def retry_refused(self) -> None:
        """Queue the receipts again that the database has refused."""
        for each in self._refused.values():
            self._queue(each)
        self._refused.clear()
        self._refused_credits.clear()

    def probe(self) -> None:
        """Try to write the journal again if it could not be written."""
        self._journal.probe()

    async def sync(self) -> None:
        """Return when everything journalled so far would survive a power failure."""
        await self._journal.sync()

    def _take_unreported(self, fact: UsageFact) -> UsageFact | None:
        self._in_progress.discard(fact.key)
        return self._unreported.get(fact.run, {}).pop(fact.key, None)

    def _enqueue(self, fact: UsageFact, *, from_row: bool = False) -> None:
        self.open_messages.queue(fact)
        ended_at = self._ended_at.pop(fact.key, None)
        known = self._pending.get(fact.key) or self._refused.get(fact.key)
        if known is not None:
            self.charge_excess(fact, charged=known.fact.usage)
            return
        charge = self._charge(fact)
        if charge.unpriced:
            # The usage is recorded; an operator must find out the price.
            self._metrics.message_unpriced()
            log.critical("receipt.unpriced", parts=charge.unpriced, source_reference=fact.source_reference)
        receipt = NewReceipt.of(fact, charge, "unpriced" if charge.unpriced else fact.basis)
        if (charges := self._charges.get(fact.run)) is not None:
            charges.add(receipt)
        self._queue(PendingReceipt(fact, receipt, from_row, ended_at))

    def _queue(self, pending: PendingReceipt) -> None:
        fact = pending.fact
        self._pending[fact.key] = pending
        self._waiting_since.setdefault(fact.key, time.monotonic())
        self._pending_by_run[fact.run] += 1
        self._credits_by_account[fact.run.account_id] += pending.receipt.charged_credits
        self._not_empty.set()

    async def _remove(self, receipts: Sequence[PendingReceipt]) -> None:
        for each in receipts:
            self._pending.pop(each.fact.key)
            self._pending_by_run[each.fact.run] -= 1
            self._credits_by_account[each.fact.run.account_id] -= each.receipt.charged_credits
        self._pending_by_run, self._credits_by_account = +self._pending_by_run, +self._credits_by_account
        if not self._pending:
            self._not_empty.clear()
        async with self._delivered:
            self._delivered.notify_all()

    def _charge(self, fact: UsageFact) -> Charge:
        return self._prices.charge(BilledUsage.of(fact), at=fact.at)


def _unavailable(problem: str) -> JournalUnavailable:
    return JournalUnavailable(f"Receipts cannot be stored safely now ({problem}); try again later.")
