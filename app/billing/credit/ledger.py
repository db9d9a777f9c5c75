"""CreditLedger: the credit of accounts and every change to it."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from app.billing.credit.expiry.service import expire_due, find_current_balance
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import FOR_EVER, CreditBalance, GrantTerms, LedgerEntry
from app.billing.credit.repository import (
    add_booked,
    add_entry,
    find_balance,
    find_entry_by_reference,
    lock_balance,
    release_reservation,
    reserved_credits,
    resize_reservation,
    update_terms,
)
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.errors import Conflict, Invalid, PaymentRequired
from app.ids import AccountId, RunKey
from app.platform.audit.records import SERVER, Actor, Change
from app.platform.audit.repository import record_change
from app.platform.clock.clock import Clock
from app.platform.db import Database, Transaction

MAX_CREDITS = 4 * 10**18
"""The limit of all grants and adjustments of an account: less than a bigint holds."""


class InsufficientCredits(PaymentRequired):
    """The account has no credit left for this run."""

    code = "insufficient_credits"


class MonthlyBudgetExhausted(InsufficientCredits):
    """The account's budget for this month is used up."""


class ReferenceTaken(Conflict):
    """This reference was already used for another amount."""

    code = "reference_taken"


class TooMuchCredit(Invalid):
    """The account's credit would exceed the supported maximum."""


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """How an account pays."""

    mode: PaymentMode
    monthly_budget: int | None
    """Credits per calendar month (UTC); None: no limit."""

    @property
    def shown(self) -> dict[str, object]:
        """As the audit log shows them."""
        return {"mode": self.mode, "monthlyBudget": self.monthly_budget}


class CreditLedger:
    """Grants, adjusts and reserves credit; debits are inserted with receipts."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        """`clock` decides which month it is."""
        self._database = database
        self._clock = clock or Clock()

    async def balance(self, account_id: AccountId) -> CreditBalance:
        """Credits granted, spent, reserved and available."""
        async with self._database.snapshot() as reader:
            return await find_current_balance(reader, account_id, self._clock.now())

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
        if terms.expires_at is not None and terms.expires_at <= self._clock.now():
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

    async def change_terms(
        self,
        account_id: AccountId,
        change: Callable[[AccountTerms], AccountTerms],
        *,
        by: Actor = SERVER,
    ) -> CreditBalance:
        """Change how an account pays; `change` gets the current terms, with the account locked."""
        async with self._database.transaction() as tx:
            now = await lock_balance(tx, account_id)
            before = AccountTerms(now.mode, now.monthly_budget)
            terms = change(before)
            await update_terms(tx, account_id, terms.mode, terms.monthly_budget)
            if terms != before:
                values = before.shown, terms.shown
                change_made = Change(account_id, "account.terms_changed", str(account_id), *values)
                await record_change(tx, by, change_made)
            return await find_balance(tx, account_id)

    async def reserve(self, tx: Transaction, run: RunKey, requested: int) -> int | None:
        """Reserve credits for a run: `requested`, or as many as are available; None if there is no limit.

        Raises `InsufficientCredits` if none are available.
        """
        now = self._clock.now()
        await expire_due(tx, run.account_id, now)
        if (await find_balance(tx, run.account_id)).available(now) is None:
            return None
        balance = await lock_balance(tx, run.account_id)
        if (available := balance.available(now)) is None:
            return None
        if available <= 0:
            raise InsufficientCredits if balance.is_overdrawn else MonthlyBudgetExhausted
        reserved = min(max(requested, 1), available)
        await add_entry(tx, run.account_id, "reservation", -reserved, run_id=run.run_id)
        return reserved

    async def release(self, tx: Transaction, run: RunKey) -> None:
        """Release a run's reservation; does nothing if there is none."""
        if await reserved_credits(tx, run) > 0:
            # A concurrent release waits for this lock and then finds nothing to release.
            await lock_balance(tx, run.account_id)
            await release_reservation(tx, run)

    async def resize_reservation(
        self, run: RunKey, requested: int, *, minimum: int | None = None, pending: int = 0
    ) -> int | None:
        """Set a run's reservation to `requested` credits if at least `minimum` are available.

        `minimum` is `requested` by default; `pending` credits are spent but not in the database yet.
        Returns the credits the run may spend: its reservation and what is available besides; None if there
        is no limit. If they are fewer than `minimum` and `pending`, nothing has changed. A reservation may
        exceed what is available: then no other run gets any until it is known what the run's calls cost.
        Concurrent calls for an account are serialized, across all processes.
        """
        floor = requested if minimum is None else minimum
        # Not `write`: a statement that was given up could commit later, after the run's release.
        async with self._database.transaction() as tx:
            await expire_due(tx, run.account_id, self._clock.now())
            return await resize_reservation(
                tx, run, requested, minimum=floor, pending=pending, now=self._clock.now()
            )

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
            await expire_due(tx, account_id, self._clock.now())
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
