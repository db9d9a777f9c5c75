"""CreditCheck: whether a run's account may spend; reserves credit for the calls of the run."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import Receipt
from app.db import StatementFailed
from app.errors import Unavailable
from app.executors.port import RunPlan
from app.gateway.call import CallCost, Refusal

log = structlog.get_logger(__name__)

LEDGER_WAIT_S = 20.0
"""How long a call waits for a ledger that does not answer; the agent gives up after a minute."""

_LEDGER_TIMEOUT_S = 1.0
"""How long the ledger may take to answer once."""

_DELIVERY_S = 0.25
"""How long the run's own receipts may take to be stored before a call."""

_RETRY_S = 0.25
_UNLIMITED_FOR_S = 5.0
"""How long the answer "this account has no credit limit" is reused."""


FindUnpriced: TypeAlias = Callable[[], Awaitable[Sequence[Receipt]]]


@dataclass(frozen=True, slots=True)
class _Needed:
    """Credits for all calls of the run that have not ended."""

    maximum: int
    minimum: int


class CreditCheck:
    """The credit of one run, checked before each of its calls.

    Without an answer of the ledger a call is only made if an earlier answer covers it: the account had no
    limit, or the credit reserved for this run, which no other run can use, covers all its calls at the most
    they may cost.
    """

    def __init__(
        self,
        plan: RunPlan,
        *,
        receipts: ReceiptQueue,
        ledger: CreditLedger,
        prices: PriceList,
        ledger_wait_s: float,
        find_unpriced: FindUnpriced | None = None,
    ) -> None:
        """`find_unpriced`: receipts of the account, of which a part has no known price."""
        self._run = plan.run
        self._receipts = receipts
        self._ledger = ledger
        self._prices = prices
        self._ledger_wait_s = ledger_wait_s
        self._find_unpriced = find_unpriced
        self._reserved = plan.reserved
        """Credits that are reserved for the run for certain; None: not known."""
        self._is_unlimited = False
        """Whether the ledger's last answer was that the account has no limit."""
        self._unlimited_until = 0.0

    async def check(self, in_progress: CallCost) -> Refusal | None:
        """Why the run may not spend now: no journal, no credit, or no answer of the ledger.

        If it may, credit for `in_progress` (all calls of the run that have not ended) is reserved.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._ledger_wait_s
        maximum = self._prices.credits_for(in_progress.maximum)
        minimum = max(1, self._prices.credits_for(in_progress.minimum))
        needed = _Needed(max(maximum, minimum), minimum)
        while self._receipts.ready:
            if loop.time() < self._unlimited_until:
                return None
            try:
                return await self._ask_ledger(needed)
            except (TimeoutError, Unavailable, StatementFailed):
                log.warning("credit.check_failed")
            if self._is_unlimited or self._is_reserved(needed):
                return None
            if loop.time() >= deadline:
                return "database"
            await asyncio.sleep(_RETRY_S)
        return "journal"

    async def _ask_ledger(self, needed: _Needed) -> Refusal | None:
        if self._reserved is not None:
            # Usually it takes milliseconds; what is not delivered must stay reserved.
            await self._receipts.wait_stored(self._run, within_s=_DELIVERY_S)
        if await self._resize(needed):
            return None
        # Receipts being delivered may have been counted twice: as pending here and by the database.
        await self._receipts.wait_delivered(self._run.account_id, within_s=_LEDGER_TIMEOUT_S)
        return None if await self._resize(needed) else "credit"

    async def _resize(self, needed: _Needed) -> bool:
        """Set the reservation; False if the credit does not cover the minimum."""
        unpriced = await self._unpriced_credits()
        pending = self._receipts.pending_credits(self._run)
        others = pending.others + unpriced
        # What the run has spent stays reserved until it is debited: another process cannot see it.
        maximum, minimum = needed.maximum + pending.own, needed.minimum + pending.own
        before = self._reserved
        # Without an answer it is not known whether the reservation was changed.
        self._reserved = None if before is None else min(before, maximum)
        async with asyncio.timeout(_LEDGER_TIMEOUT_S):
            spendable = await self._ledger.resize_reservation(
                self._run, maximum, minimum=minimum, pending=others
            )
        self._is_unlimited = spendable is None
        if spendable is None:
            self._reserved = None
            self._unlimited_until = asyncio.get_running_loop().time() + _UNLIMITED_FOR_S
            return True
        is_covered = spendable - others >= minimum
        self._reserved = maximum if is_covered else before
        return is_covered

    async def _unpriced_credits(self) -> int:
        """What this month's unpriced messages of the account may cost besides what is charged of them."""
        if self._find_unpriced is None:
            return 0
        async with asyncio.timeout(_LEDGER_TIMEOUT_S):
            receipts = await self._find_unpriced()
        most = (self._prices.credits_at_most(each.billed, at=each.used_at) for each in receipts)
        return sum(most) - sum(each.charged_credits for each in receipts)

    def _is_reserved(self, needed: _Needed) -> bool:
        own = self._receipts.pending_credits(self._run).own
        return self._reserved is not None and needed.maximum + own <= self._reserved
