"""ReceiptWriter: every fact into the journal, and from there into the database, exactly once."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from decimal import Decimal
from itertools import islice

import structlog

from app.billing.journal import Journal, JournalUnavailable
from app.billing.pricing import Charge, PriceList, UnknownPrice
from app.billing.repository import NewReceipt, insert_receipts
from app.db import Database
from app.errors import Unavailable
from app.ids import AccountId, RunKey
from app.usage import UsageFact

log = structlog.get_logger(__name__)

BATCH = 500
"""Receipts of one statement; under load they collect while the one before is under way."""

CLOSE_TIMEOUT_S = 3.0
"""How long a server that stops waits for the database; what is left stays in the journal."""

_MIN_RETRY_S = 0.1
_MAX_RETRY_S = 5.0
_RECOVERY_INTERVAL_S = 15.0
"""How often the journals of neighbours that died are looked for."""

_UNPRICED = Charge(cost_usd=Decimal(0), charged_credits=0, price_version="none")


class ReceiptWriter:
    """Takes facts and sees to it that each becomes one receipt."""

    def __init__(self, database: Database, journal: Journal, prices: PriceList) -> None:
        self._database = database
        self._journal = journal
        self._prices = prices
        self._unreported: dict[RunKey, dict[str, UsageFact]] = {}
        self._pending: dict[str, NewReceipt] = {}
        self._in_progress: set[str] = set()
        self._pending_by_run: Counter[RunKey] = Counter()
        self._credits_by_account: Counter[AccountId] = Counter()
        self._wakeup = asyncio.Event()
        self._delivered = asyncio.Condition()
        self.deliveries = 0
        """How often receipts left for the database: between two looks at it, nothing else moved."""

    @property
    def ready(self) -> bool:
        """Whether receipts can be kept safe."""
        return self._journal.problem is None

    def require_ready(self) -> None:
        """Raise `JournalUnavailable` while receipts could not be kept safe."""
        self._journal.probe()
        if self._journal.problem is not None:
            raise _unavailable(self._journal.problem)

    def start_message(self, fact: UsageFact, replaces: UsageFact | None = None) -> None:
        """A message has begun: should this process die, its receipt will be `partial`.

        `replaces`: the one that stood for it until then, and costs nothing now. Raises `JournalUnavailable`
        when that could not be written down: then nobody may read it.
        """
        if replaces is not None:
            self._take_unreported(replaces)
        self._unreported.setdefault(fact.run, {})[fact.key] = fact
        self._in_progress.add(fact.key)
        self._journal.start_message(fact, replaces=None if replaces is None else replaces.key)
        if self._journal.problem is not None:
            self._enqueue(replace(fact, basis="partial", output_estimated=True))
            raise _unavailable(self._journal.problem)

    def complete_message(self, fact: UsageFact) -> None:
        """A message's numbers are known: should this process die, it will be `recovered`."""
        self._unreported.setdefault(fact.run, {})[fact.key] = fact
        self._in_progress.discard(fact.key)
        self._journal.complete_message(fact)
        if self._journal.problem is not None:
            # Nothing on disk answers for it: into the database at once.
            self._enqueue(fact)

    def void_message(self, fact: UsageFact) -> None:
        """A message that was opened costs nothing."""
        self._take_unreported(fact)
        self._journal.acknowledge([fact.key])

    def record(self, fact: UsageFact) -> None:
        """State a fact: journalled when this returns, in the database soon after.

        A second statement of the same message changes nothing.
        """
        reported_before = self._take_unreported(fact)
        if reported_before != fact:
            self._journal.complete_message(fact)
        self._enqueue(fact)

    async def flush(self, run: RunKey, *, within_s: float) -> None:
        """Nothing more will be stated of a run: wait a little until its receipts are in the database.

        After that at the latest they would survive a power cut.
        """
        for fact in self._unreported.pop(run, {}).values():
            self._in_progress.discard(fact.key)
            log.error("receipt.message_unreported", source_reference=fact.source_reference)
            self._enqueue(fact)
        try:
            async with asyncio.timeout(within_s), self._delivered:
                await self._delivered.wait_for(lambda: self._pending_by_run[run] == 0)
        except TimeoutError:
            # On its way; until it is there the journal answers for it.
            await self._journal.sync()

    async def recover_run(self, run: RunKey, *, within_s: float) -> None:
        """Wait a little until what a dead process left of a run is in the database."""
        self._recover()
        await self.flush(run, within_s=within_s)

    def pending_credits(self, run: RunKey) -> int:
        """Credits of a run's complete messages that the database does not know of.

        And of all receipts of its account that are on their way. What other runs have not stated yet
        is covered by what they have set aside.
        """
        complete = (
            self._priced(fact).charge.charged_credits
            for key, fact in self._unreported.get(run, {}).items()
            if key not in self._pending and key not in self._in_progress
        )
        return self._credits_by_account[run.account_id] + sum(complete)

    async def wait_delivered(self, account_id: AccountId, *, within_s: float) -> None:
        """Wait a little until nothing of an account is on its way to the database."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._delivered:
                await self._delivered.wait_for(lambda: not self._credits_by_account[account_id])

    async def work(self) -> None:
        """Deliver until cancelled; first what processes that died have left."""
        next_recovery = asyncio.get_running_loop().time()
        retry_s = _MIN_RETRY_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_recovery):
                    await self._wakeup.wait()
            self._journal.probe()
            try:
                if asyncio.get_running_loop().time() >= next_recovery:
                    next_recovery += _RECOVERY_INTERVAL_S
                    self._recover()
                await self._deliver()
                retry_s = _MIN_RETRY_S
                continue
            except Unavailable as error:
                log.warning("receipts.delivery_delayed", reason=error.detail, pending=len(self._pending))
            except Exception:
                # Whatever it was, the next try may go well; the server must not end of it.
                log.exception("receipts.delivery_failed")
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, _MAX_RETRY_S)

    async def aclose(self) -> None:
        """Try once more; what is left stays in the journal for the next process."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._deliver()
        except (TimeoutError, Unavailable):
            log.error("receipts.left_in_journal", receipts=len(self._pending))  # noqa: TRY400
        await self._journal.sync()

    def _take_unreported(self, fact: UsageFact) -> UsageFact | None:
        self._in_progress.discard(fact.key)
        return self._unreported.get(fact.run, {}).pop(fact.key, None)

    def _recover(self) -> None:
        for fact in self._journal.recover():
            try:
                self._enqueue(fact)
            except Exception:
                # One that cannot be priced must not hold up the others.
                log.critical("receipt.recovery_failed", source_reference=fact.source_reference, exc_info=True)

    def _enqueue(self, fact: UsageFact) -> None:
        if fact.key in self._pending:
            return
        receipt = self._priced(fact)
        if receipt.basis == "unpriced":
            # The API served a model nobody asked for. The tokens are kept; somebody must look.
            log.critical("receipt.unpriced", model=fact.model, source_reference=fact.source_reference)
        self._pending[fact.key] = receipt
        self._pending_by_run[fact.run] += 1
        self._credits_by_account[fact.run.account_id] += receipt.charge.charged_credits
        self._wakeup.set()

    def _priced(self, fact: UsageFact) -> NewReceipt:
        try:
            charge = self._prices.charge(fact.model, fact.usage, at=fact.at)
        except UnknownPrice:
            return NewReceipt(fact, _UNPRICED, "unpriced")
        return NewReceipt(fact, charge, fact.basis)

    async def _deliver(self) -> None:
        while self._pending:
            self._wakeup.clear()
            batch = list(islice(self._pending.values(), BATCH))
            try:
                async with self._database.transaction() as tx:
                    await insert_receipts(tx, batch)
            except Unavailable:
                self._wakeup.set()
                raise
            except Exception:  # noqa: BLE001 - one of them is to blame: find it
                await self._deliver_one_by_one(batch)
            else:
                await self._mark_acknowledged(receipt.fact for receipt in batch)
        self._wakeup.clear()

    async def _deliver_one_by_one(self, batch: Sequence[NewReceipt]) -> None:
        """A receipt the database refuses must not hold up the others."""
        for receipt in batch:
            try:
                async with self._database.transaction() as tx:
                    await insert_receipts(tx, [receipt])
            except Unavailable:
                self._wakeup.set()
                raise
            except Exception:
                log.critical(
                    "receipt.refused",
                    fact=asdict(receipt.fact),
                    exc_info=True,
                )
                await self._remove([receipt.fact])
            else:
                await self._mark_acknowledged([receipt.fact])

    async def _mark_acknowledged(self, facts: Iterable[UsageFact]) -> None:
        delivered = list(facts)
        self._journal.acknowledge(fact.key for fact in delivered)
        await self._remove(delivered)

    async def _remove(self, facts: Sequence[UsageFact]) -> None:
        for fact in facts:
            receipt = self._pending.pop(fact.key)
            self._pending_by_run[fact.run] -= 1
            self._credits_by_account[fact.run.account_id] -= receipt.charge.charged_credits
        self._pending_by_run, self._credits_by_account = +self._pending_by_run, +self._credits_by_account
        self.deliveries += 1
        async with self._delivered:
            self._delivered.notify_all()


def _unavailable(problem: str) -> JournalUnavailable:
    return JournalUnavailable(f"Receipts cannot be kept safe now ({problem}); try again later.")
