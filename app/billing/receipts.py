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

LAST_TRY_S = 3.0
"""How long a server that stops waits for the database; what is left stays in the journal."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_LOOK_AROUND_S = 15.0
"""How often the journals of neighbours that died are looked for."""

_UNPRICED = Charge(cost_usd=Decimal(0), charged_credits=0, price_version="none")


class ReceiptWriter:
    """Takes facts and sees to it that each becomes one receipt."""

    def __init__(self, database: Database, journal: Journal, prices: PriceList) -> None:
        self._database = database
        self._journal = journal
        self._prices = prices
        self._unstated: dict[RunKey, dict[str, UsageFact]] = {}
        self._waiting: dict[str, NewReceipt] = {}
        self._under_way: set[str] = set()
        self._of_run: Counter[RunKey] = Counter()
        self._queued: Counter[AccountId] = Counter()
        self._news = asyncio.Event()
        self._progress = asyncio.Condition()
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

    def opened(self, fact: UsageFact, instead_of: UsageFact | None = None) -> None:
        """A message has begun: should this process die, its receipt will be `partial`.

        `instead_of`: the one that stood for it until then, and costs nothing now. Raises `JournalUnavailable`
        when that could not be written down: then nobody may read it.
        """
        if instead_of is not None:
            self._forget_unstated(instead_of)
        self._unstated.setdefault(fact.run, {})[fact.key] = fact
        self._under_way.add(fact.key)
        self._journal.opened(fact, instead_of=None if instead_of is None else instead_of.key)
        if self._journal.problem is not None:
            self._queue(replace(fact, basis="partial", output_estimated=True))
            raise _unavailable(self._journal.problem)

    def closed(self, fact: UsageFact) -> None:
        """A message's numbers are known: should this process die, it will be `recovered`."""
        self._unstated.setdefault(fact.run, {})[fact.key] = fact
        self._under_way.discard(fact.key)
        self._journal.closed(fact)
        if self._journal.problem is not None:
            # Nothing on disk answers for it: into the database at once.
            self._queue(fact)

    def voided(self, fact: UsageFact) -> None:
        """A message that was opened costs nothing."""
        self._forget_unstated(fact)
        self._journal.done([fact.key])

    def record(self, fact: UsageFact) -> None:
        """State a fact: journalled when this returns, in the database soon after.

        A second statement of the same message changes nothing.
        """
        known = self._forget_unstated(fact)
        if known != fact:
            self._journal.closed(fact)
        self._queue(fact)

    async def settle(self, run: RunKey, *, within_s: float) -> None:
        """Nothing more will be stated of a run: wait a little until its receipts are in the database.

        After that at the latest they would survive a power cut.
        """
        for fact in self._unstated.pop(run, {}).values():
            self._under_way.discard(fact.key)
            log.error("a message nobody stated", of=fact.source_reference)
            self._queue(fact)
        try:
            async with asyncio.timeout(within_s), self._progress:
                await self._progress.wait_for(lambda: self._of_run[run] == 0)
        except TimeoutError:
            # On its way; until it is there the journal answers for it.
            await self._journal.flushed()

    async def inherit(self, run: RunKey, *, within_s: float) -> None:
        """Wait a little until what a dead process left of a run is in the database."""
        self._adopt()
        await self.settle(run, within_s=within_s)

    def owed(self, run: RunKey) -> int:
        """Credits of a run's complete messages that the database does not know of.

        And of all receipts of its account that are on their way. What other runs have not stated yet
        is covered by what they have set aside.
        """
        complete = (
            self._priced(fact).charge.charged_credits
            for key, fact in self._unstated.get(run, {}).items()
            if key not in self._waiting and key not in self._under_way
        )
        return self._queued[run.account_id] + sum(complete)

    async def delivered(self, account_id: AccountId, *, within_s: float) -> None:
        """Wait a little until nothing of an account is on its way to the database."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._progress:
                await self._progress.wait_for(lambda: not self._queued[account_id])

    async def work(self) -> None:
        """Deliver until cancelled; first what processes that died have left."""
        look_at = asyncio.get_running_loop().time()
        pause_s = _FIRST_PAUSE_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await self._news.wait()
            self._journal.probe()
            try:
                if asyncio.get_running_loop().time() >= look_at:
                    look_at += _LOOK_AROUND_S
                    self._adopt()
                await self._deliver()
                pause_s = _FIRST_PAUSE_S
                continue
            except Unavailable as error:
                log.warning("receipts must wait", reason=error.detail, waiting=len(self._waiting))
            except Exception:
                # Whatever it was, the next try may go well; the server must not end of it.
                log.exception("receipts could not be delivered")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def aclose(self) -> None:
        """Try once more; what is left stays in the journal for the next process."""
        try:
            async with asyncio.timeout(LAST_TRY_S):
                await self._deliver()
        except (TimeoutError, Unavailable):
            log.error("receipts wait in the journal", receipts=len(self._waiting))  # noqa: TRY400
        await self._journal.flushed()

    def _forget_unstated(self, fact: UsageFact) -> UsageFact | None:
        self._under_way.discard(fact.key)
        return self._unstated.get(fact.run, {}).pop(fact.key, None)

    def _adopt(self) -> None:
        for fact in self._journal.adopt():
            try:
                self._queue(fact)
            except Exception:
                # One that cannot be priced must not hold up the others.
                log.critical("a receipt stays in the journal", of=fact.source_reference, exc_info=True)

    def _queue(self, fact: UsageFact) -> None:
        if fact.key in self._waiting:
            return
        receipt = self._priced(fact)
        if receipt.basis == "unpriced":
            # The API served a model nobody asked for. The tokens are kept; somebody must look.
            log.critical(
                "a message without a price: give it one in RUNTALLY_PRICES_FILE, then `runtally reprice`",
                model=fact.model,
                of=fact.source_reference,
            )
        self._waiting[fact.key] = receipt
        self._of_run[fact.run] += 1
        self._queued[fact.run.account_id] += receipt.charge.charged_credits
        self._news.set()

    def _priced(self, fact: UsageFact) -> NewReceipt:
        try:
            charge = self._prices.charge(fact.model, fact.usage, at=fact.at)
        except UnknownPrice:
            return NewReceipt(fact, _UNPRICED, "unpriced")
        return NewReceipt(fact, charge, fact.basis)

    async def _deliver(self) -> None:
        while self._waiting:
            self._news.clear()
            batch = list(islice(self._waiting.values(), BATCH))
            try:
                async with self._database.transaction() as tx:
                    await insert_receipts(tx, batch)
            except Unavailable:
                self._news.set()
                raise
            except Exception:  # noqa: BLE001 - one of them is to blame: find it
                await self._deliver_one_by_one(batch)
            else:
                await self._acknowledge(receipt.fact for receipt in batch)
        self._news.clear()

    async def _deliver_one_by_one(self, batch: Sequence[NewReceipt]) -> None:
        """A receipt the database refuses must not hold up the others."""
        for receipt in batch:
            try:
                async with self._database.transaction() as tx:
                    await insert_receipts(tx, [receipt])
            except Unavailable:
                self._news.set()
                raise
            except Exception:
                log.critical(
                    "the database refuses a receipt; it stays in the journal",
                    fact=asdict(receipt.fact),
                    exc_info=True,
                )
                await self._forget([receipt.fact])
            else:
                await self._acknowledge([receipt.fact])

    async def _acknowledge(self, facts: Iterable[UsageFact]) -> None:
        delivered = list(facts)
        self._journal.done(fact.key for fact in delivered)
        await self._forget(delivered)

    async def _forget(self, facts: Sequence[UsageFact]) -> None:
        for fact in facts:
            receipt = self._waiting.pop(fact.key)
            self._of_run[fact.run] -= 1
            self._queued[fact.run.account_id] -= receipt.charge.charged_credits
        self._of_run, self._queued = +self._of_run, +self._queued
        self.deliveries += 1
        async with self._progress:
            self._progress.notify_all()


def _unavailable(problem: str) -> JournalUnavailable:
    return JournalUnavailable(f"Receipts cannot be kept safe now ({problem}); try again later.")
