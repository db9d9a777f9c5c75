"""CreditLedger: the credit of accounts and every change to it."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from app.billing.budgets.records import Amount, BudgetLeft
from app.billing.budgets.repository import budgets_left, hold, mark_refusing
from app.billing.credit.expiry.service import expire_due, find_current_balance
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import FOR_EVER, CreditBalance, GrantTerms, LedgerEntry, Spendable, TopUp
from app.billing.credit.repository import (
    add_booked,
    find_balance,
    find_entry_by_reference,
    lock_balance,
    release_reservation,
    resize_reservation,
    update_mode,
    update_top_up,
)
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.errors import Conflict, Invalid, PaymentRequired
from app.ids import AccountId, RunKey
from app.platform.audit.records import SERVER, Actor, Change
from app.platform.audit.repository import record_change
from app.platform.clock.clock import Clock
from app.platform.db import Database, Transaction
from app.requests.outcome import SpentBudget

MAX_CREDITS = 4 * 10**18
"""The limit of all grants and adjustments of an account: less than a bigint holds."""


class InsufficientCredits(PaymentRequired):
    """The account has no credit left for this run."""

    code = "insufficient_credits"


class BudgetSpent(PaymentRequired):
    """A budget is used up."""

    code = "budget_reached"

    def __init__(self, budget: SpentBudget, detail: str | None = None, *, is_held: bool = False) -> None:
        """`is_held`: enough is left once the calls of other runs have ended, if they cost nothing."""
        super().__init__(detail or budget.sentence, members=budget.fields)
        self.budget, self.is_held = budget, is_held


class Reserved(NamedTuple):
    """What was reserved for a run when it was accepted."""

    amount: Amount
    reached: Sequence[SpentBudget] = ()
    """Soft budgets that are used up."""
    has_budgets: bool = False


class ReferenceTaken(Conflict):
    """This reference was already used for another amount."""

    code = "reference_taken"


class TooMuchCredit(Invalid):
    """The account's credit would exceed the supported maximum."""


class CreditLedger:
    """Grants, adjusts and reserves credit; debits are inserted with receipts."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        """`clock` decides in which window of a budget it is."""
        self._database = database
        self.clock = clock or Clock()

    async def balance(self, account_id: AccountId) -> CreditBalance:
        """Credits granted, spent, reserved and available."""
        async with self._database.snapshot() as reader:
            return await find_current_balance(reader, account_id, self.clock.now())

    async def grant(
        self,
        account_id: AccountId,
        credits_: int,
        *,
        note: str | None = None,
        reference: str | None = None,
        terms: GrantTerms = FOR_EVER,
        by: Actor = SERVER,
    ) -> CreditBalance:
        """Add credits; repeating a `reference` adds them once.

        Raises `ReferenceTaken`, `TooMuchCredit`, and `Invalid` for terms that have passed.
        """
        if terms.expires_at is not None and terms.expires_at <= self.clock.now():
            raise Invalid.field("expiresAt", "must be in the future")
        entry = LedgerEntry("grant", credits_, terms)
        return await self._add(account_id, entry, note=note, reference=reference, by=by)

    async def adjust(
        self,
        account_id: AccountId,
        credits_: int,
        *,
        note: str | None = None,
        reference: str | None = None,
        by: Actor = SERVER,
    ) -> CreditBalance:
        """Correct an account by credits of either sign; repeating a `reference` does it once."""
        entry = LedgerEntry("adjustment", credits_)
        return await self._add(account_id, entry, note=note, reference=reference, by=by)

    async def change_mode(
        self, account_id: AccountId, mode: PaymentMode, *, by: Actor = SERVER
    ) -> CreditBalance:
        """Change how an account pays."""
        async with self._database.transaction() as tx:
            before = (await lock_balance(tx, account_id)).mode
            await update_mode(tx, account_id, mode)
            if mode != before:
                values = {"mode": before}, {"mode": mode}
                change = Change(account_id, "account.terms_changed", str(account_id), *values)
                await record_change(tx, by, change)
            return await find_balance(tx, account_id)

    async def set_top_up(
        self, account_id: AccountId, top_up: TopUp | None, *, by: Actor = SERVER
    ) -> CreditBalance:
        """Set when webhooks are told to add credit; None: never. It may be now.

        A request that credit has not followed is repeated on another day only.
        """
        async with self._database.transaction() as tx:
            before = (await lock_balance(tx, account_id)).top_up
            if top_up != before:
                await update_top_up(tx, account_id, top_up)
                values = (None if each is None else each.shown for each in (before, top_up))
                await record_change(tx, by, Change(account_id, "credit.top_up_set", str(account_id), *values))
            return await find_balance(tx, account_id)

    async def reserve(self, tx: Transaction, run: RunKey, requested: int) -> Reserved | None:
        """Reserve credits for a run that is accepted; None if there is no limit and no budget.

        Raises `InsufficientCredits` and `BudgetSpent` if nothing is left. What is held for other runs is left
        of a budget: calls wait for it.
        """
        amount, least = Amount(max(requested, 1), 0), Amount(1, 1)
        spendable = await self._resize(tx, run, amount.credits, minimum=least.credits)
        if spendable is None:
            return None
        if spendable.credits < least.credits:
            raise InsufficientCredits
        if not spendable.has_budgets:
            return Reserved(amount)
        reached = await self._reached(tx, run, least)
        for budget in reached:
            if budget.mode == "hard" and not budget.is_held(least, pending=0):
                raise BudgetSpent(budget.spent)
            if budget.mode == "hard":
                amount = least
        await hold(tx, run, amount)
        return Reserved(amount, [each.spent for each in reached if each.mode == "soft"], has_budgets=True)

    async def release(self, tx: Transaction, run: RunKey) -> None:
        await release_reservation(tx, run)

    async def resize_reservation(
        self,
        run: RunKey,
        requested: Amount,
        *,
        minimum: Amount | None = None,
        pending: int = 0,
    ) -> Spendable | None:
        """Set a run's reservation to `requested` if at least `minimum` is available.

        `minimum` is `requested` by default; `pending` credits are spent but not in the database yet.
        Returns the credits the run may spend: its reservation and what is available besides; None if there
        is no limit. If they are fewer than `minimum` and `pending`, nothing has changed. A reservation may
        exceed what is available: then no other run gets any until it is known what the run's calls cost.
        Concurrent calls for an account are serialized, across all processes. Raises `BudgetSpent` if a
        budget leaves less than `minimum`; then nothing has changed either.
        """
        least = minimum or requested
        # Not `write`: a statement that was given up could commit later, after the run's release.
        async with self._database.transaction() as tx:
            spendable = await self._resize(tx, run, requested.credits, minimum=least.credits, pending=pending)
            if spendable is None:
                return None
            if spendable.has_budgets and spendable.credits - pending >= least.credits:
                reached = await self._reached(tx, run, least, pending=pending)
                hard = [budget for budget in reached if budget.mode == "hard"]
                held = [budget.is_held(least, pending=pending) for budget in hard]
                if hard:
                    # To wait for what is held does not help if another budget is used up.
                    budget = hard[held.index(min(held))]
                    raise BudgetSpent(budget.spent, is_held=all(held))
                await hold(tx, run, requested)
            return spendable

    async def report_refusal(self, run: RunKey, needed: Amount) -> None:
        """Report to webhooks which hard budgets have refused a call of a run: once for each window."""
        async with self._database.transaction() as tx:
            await lock_balance(tx, run.account_id)
            await mark_refusing(tx, run, needed, self.clock.now())

    async def _resize(
        self, tx: Transaction, run: RunKey, requested: int, *, minimum: int, pending: int = 0
    ) -> Spendable | None:
        now = self.clock.now()
        set_ = partial(resize_reservation, tx, run, requested, minimum=minimum, pending=pending, now=now)
        spendable = await set_()
        if spendable is None or not spendable.has_due:
            return spendable
        await expire_due(tx, run.account_id, now)
        return await set_()

    async def _reached(
        self, tx: Transaction, run: RunKey, least: Amount, *, pending: int = 0
    ) -> list[BudgetLeft]:
        """The budgets that leave less than `least` to a run."""
        left = await budgets_left(tx, run, self.clock.now())
        return [budget for budget in left if not budget.covers(least, pending=pending)]

    async def _add(
        self,
        account_id: AccountId,
        entry: LedgerEntry,
        *,
        note: str | None,
        reference: str | None,
        by: Actor,
    ) -> CreditBalance:
        async with self._database.transaction() as tx:
            await lock_balance(tx, account_id)
            # What was spent until now was not paid by the new credit.
            await expire_due(tx, account_id, self.clock.now())
            before = await find_balance(tx, account_id)
            if abs(entry.credits) + before.granted + abs(before.adjusted) > MAX_CREDITS:
                raise TooMuchCredit
            existing = None if reference is None else await find_entry_by_reference(tx, account_id, reference)
            if existing is None:
                balance = before.balance + entry.credits
                await add_booked(tx, account_id, entry, balance=balance, note=note, reference=reference)
                after = {"credits": entry.credits, "note": note, "reference": reference, **entry.terms.shown}
                change = Change(account_id, f"credit.{entry.kind}", str(account_id), after=after)
                await record_change(tx, by, change)
            elif existing != entry:
                raise ReferenceTaken
            return await find_balance(tx, account_id)


def usd(credits_: int) -> Decimal:
    """Convert credits to dollars, exactly."""
    return Decimal(credits_) / CREDITS_PER_DOLLAR
