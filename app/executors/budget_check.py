"""BudgetCheck: whether the credit and the budgets of a run allow a call; reserves credit for its calls."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias
from weakref import WeakValueDictionary

import structlog

from app.billing.budgets.records import Amount
from app.billing.credit.ledger import MAX_CREDITS, BudgetSpent, CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import Receipt
from app.errors import Unavailable
from app.executors.port import RunPlan
from app.gateway.call import CallCost, Refusal
from app.ids import AccountId
from app.platform.clock.lease import Lease
from app.platform.db import StatementFailed
from app.requests.outcome import SpentBudget

log = structlog.get_logger(__name__)

LEDGER_WAIT_S = 20.0
"""How long a call waits for a ledger that does not answer; the agent gives up after a minute."""

HELD_WAIT_S = 30.0
"""How long a call waits for what is reserved for other runs, which may need less."""

_LEDGER_TIMEOUT_S = 1.0
"""How long the ledger may take to answer once, if the call can be made without its answer."""

_NEEDED_TIMEOUT_S = 5.0
"""The same if it cannot: a statement that is given up waits for its connection from the beginning."""

_DELIVERY_S = 0.25
"""How long the run's own receipts may take to be stored before a call."""

_RETRY_S = 0.25
UNLIMITED_FOR_S = 5.0
"""How long the answer "this account has no credit limit" is reused."""


_NOTHING = Amount(0, 0)
_LESS_THAN_NOTHING = Amount(-MAX_CREDITS, -MAX_CREDITS)
"""Left whatever is spent."""

FindUnpriced: TypeAlias = Callable[[], Awaitable[Sequence[Receipt]]]


@dataclass(slots=True, weakref_slot=True)
class _AccountTurns:
    """Exists as long as a run of the account waits, or has its turn."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    unlimited_at: float = -math.inf
    """When (loop time) the ledger was asked last and answered that the account has no limit."""


class LedgerTurns:
    """Lets the runs of an account change their reservations one after the other.

    The database does so as well, at the account's row; but there each would hold a connection while it
    waits, and a wait that is given up would break that connection.
    """

    def __init__(self) -> None:
        self._accounts: WeakValueDictionary[AccountId, _AccountTurns] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, account_id: AccountId, *, until: float) -> AsyncIterator[_AccountTurns]:
        """Wait for a turn, in the order of arrival; raises `TimeoutError` at `until` (loop time)."""
        account = self._accounts.setdefault(account_id, _AccountTurns())
        async with asyncio.timeout_at(until):
            await account.lock.acquire()
        try:
            yield account
        finally:
            account.lock.release()


@dataclass(frozen=True, slots=True)
class _Needed:
    """Credits and tokens for all calls of the run that have not ended."""

    maximum: Amount
    minimum: Amount
    deadline: float
    """Loop time until which the ledger's answer is waited for."""


@dataclass(slots=True)
class BudgetCheck:
    """The credit of one run, checked before each of its calls.

    Without an answer of the ledger a call is only made if an earlier answer covers it: the account had no
    limit, or the credit reserved for this run, which no other run can use, covers all its calls at the most
    they may cost.
    """

    plan: RunPlan
    receipts: ReceiptQueue
    ledger: CreditLedger
    prices: PriceList
    turns: LedgerTurns
    ledger_wait_s: float
    lease: Lease
    find_unpriced: FindUnpriced | None = None
    """Receipts of the account, of which a part has no known price."""
    spent_budget: SpentBudget | None = field(init=False, default=None)
    """The budget that has refused the last call, if one has."""
    is_held: bool = field(init=False, default=False)
    """Whether what the last call needed is reserved for other runs, which may need less."""
    _refused: Amount = field(init=False, default=_NOTHING)
    """What was needed when that budget has refused it."""
    _reserved: Amount | None = field(init=False)
    """What is reserved for the run for certain; None: not known."""
    _is_unlimited: bool = field(init=False)
    """Whether the ledger's last answer was that the account has no limit."""
    _unlimited_until: float = field(init=False)

    def __post_init__(self) -> None:
        unlimited_at = self.plan.unlimited_at
        self._reserved, self._is_unlimited = self.plan.reserved, unlimited_at is not None
        self._unlimited_until = 0.0 if unlimited_at is None else unlimited_at + UNLIMITED_FOR_S

    async def check(self, in_progress: CallCost) -> Refusal | None:
        """Why the run may not spend now: no journal, no credit, no answer of the ledger, or no lease.

        If it may, credit for `in_progress` (all calls of the run that have not ended) is reserved.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.ledger_wait_s
        maximum = self.prices.credits_for(in_progress.maximum)
        minimum = max(1, self.prices.credits_for(in_progress.minimum))
        needed = _Needed(
            Amount(max(maximum, minimum), in_progress.most_tokens),
            Amount(minimum, max(1, in_progress.least_tokens)),
            deadline,
        )
        if not await self.lease.wait_held(self.plan.run, within_s=self.ledger_wait_s):
            return "database"
        refusal = await self._check_ledger(needed)
        if refusal is None and not await self.lease.wait_held(self.plan.run, within_s=deadline - loop.time()):
            return "database"
        return refusal

    async def release(self) -> bool:
        """Reserve no more than is spent, while no call is being made; False if the ledger does not answer."""
        if self._is_unlimited:
            return True
        deadline = asyncio.get_running_loop().time() + self.ledger_wait_s
        try:
            async with self.turns.take(self.plan.run.account_id, until=deadline):
                # Less than before is always covered; what was charged meanwhile still is reserved, too.
                await self._resize_in_turn(_Needed(Amount(1, 0), _LESS_THAN_NOTHING, deadline))
        except (TimeoutError, Unavailable, StatementFailed):
            return False
        return True

    async def report_refusal(self) -> None:
        """Report that a budget has refused a call for good, if the ledger answers: the run ends anyway."""
        try:
            async with asyncio.timeout(_NEEDED_TIMEOUT_S):
                await self.ledger.report_refusal(self.plan.run, self._refused)
        except (TimeoutError, Unavailable, StatementFailed):
            log.warning("credit.refusal_not_reported")

    async def _check_ledger(self, needed: _Needed) -> Refusal | None:
        loop, is_logged = asyncio.get_running_loop(), False
        while self.receipts.ready:
            if loop.time() < self._unlimited_until:
                return None
            try:
                return await self._ask_ledger(needed)
            except (TimeoutError, Unavailable, StatementFailed):
                if not is_logged:
                    log.warning("credit.check_failed")
                is_logged = True
            if self._is_covered(needed):
                return None
            if loop.time() >= needed.deadline:
                return "database"
            await asyncio.sleep(_RETRY_S)
        return "journal"

    async def _ask_ledger(self, needed: _Needed) -> Refusal | None:
        if self._reserved is not None:
            # Usually it takes milliseconds; what is not delivered must stay reserved.
            await self.receipts.wait_stored(self.plan.run, within_s=_DELIVERY_S)
        if await self._resize(needed):
            return None
        # Receipts being delivered may have been counted twice: as pending here and by the database.
        await self.receipts.wait_delivered(self.plan.run.account_id, within_s=_LEDGER_TIMEOUT_S)
        if await self._resize(needed):
            return None
        return "credit" if self.spent_budget is None else "account_budget"

    async def _resize(self, needed: _Needed) -> bool:
        """Set the reservation; False if the credit, or a budget, does not cover the minimum."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        turn_by = asked_at + _LEDGER_TIMEOUT_S
        if not self._is_covered(needed):
            # An answer is needed, however many wait for theirs.
            turn_by = max(turn_by, needed.deadline)
        async with self.turns.take(self.plan.run.account_id, until=turn_by) as account:
            if account.unlimited_at < asked_at:
                answer_of = loop.time()
                is_covered = await self._resize_in_turn(needed)
                if self._is_unlimited:
                    account.unlimited_at = answer_of
                return is_covered
            # Another run has asked meanwhile, and the answer is about the account: a queue of runs that wait
            # for theirs, such as those that are resumed together, needs one and not one each.
            self._set_unlimited(account.unlimited_at)
            return True

    async def _resize_in_turn(self, needed: _Needed) -> bool:
        unpriced = await self._unpriced_credits()
        pending = self.receipts.pending_credits(self.plan.run)
        others = pending.others + unpriced
        # What the run has spent stays reserved until it is debited: another process cannot see it.
        own = Amount(pending.own, pending.own_tokens)
        maximum, minimum = needed.maximum.plus(own), needed.minimum.plus(own)
        timeout_s = _LEDGER_TIMEOUT_S if self._is_covered(needed) else _NEEDED_TIMEOUT_S
        before = self._reserved
        # Without an answer it is not known whether the reservation was changed.
        self._reserved = None if before is None else before.least(maximum)
        self.spent_budget, self.is_held, is_covered = None, False, False
        try:
            async with asyncio.timeout(timeout_s):
                spendable = await self.ledger.resize_reservation(
                    self.plan.run, maximum, minimum=minimum, pending=others
                )
        except BudgetSpent as refusal:
            self.spent_budget, self.is_held, self._refused = refusal.budget, refusal.is_held, minimum
        else:
            if spendable is None:
                self._set_unlimited(asyncio.get_running_loop().time())
                return True
            left = spendable.credits - others
            is_covered, self.is_held = left >= minimum.credits, left + spendable.held >= minimum.credits
        self._is_unlimited = False
        self._reserved = maximum if is_covered else before
        return is_covered

    def _set_unlimited(self, at: float) -> None:
        self._is_unlimited, self._reserved = True, None
        self._unlimited_until = at + UNLIMITED_FOR_S

    async def _unpriced_credits(self) -> int:
        """What this month's unpriced messages of the account may cost besides what is charged of them."""
        if self.find_unpriced is None:
            return 0
        async with asyncio.timeout(_LEDGER_TIMEOUT_S):
            receipts = await self.find_unpriced()
        most = (self.prices.credits_at_most(each.billed, at=each.used_at) for each in receipts)
        return sum(most) - sum(each.charged_credits for each in receipts)

    def _is_covered(self, needed: _Needed) -> bool:
        """Whether an earlier answer of the ledger covers the calls."""
        if self._is_unlimited:
            return True
        if self._reserved is None:
            return False
        pending = self.receipts.pending_credits(self.plan.run)
        wanted = needed.maximum.plus(Amount(pending.own, pending.own_tokens))
        return wanted.least(self._reserved) == wanted
