"""CreditLedger: what an account may spend, and every change of it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from app.billing.ledger_repository import (
    add_entry,
    find_balance,
    find_entry_by_reference,
    lock_balance,
    release_reservation,
    reserved_credits,
    resize_reservation,
    update_terms,
)
from app.billing.payment_mode import PaymentMode
from app.billing.pricing import CREDITS_PER_DOLLAR
from app.billing.records import CreditBalance
from app.db import Database, Transaction
from app.errors import Conflict, Invalid, PaymentRequired
from app.ids import AccountId, RunKey

MAX_CREDITS = 4 * 10**18
"""What an account may be given and adjusted by in all: less than a bigint holds."""


class InsufficientCredits(PaymentRequired):
    """The account has no credit left for this run."""

    code = "insufficient_credits"


class ReferenceTaken(Conflict):
    """This reference was used for another amount."""

    code = "reference_taken"


class TooMuchCredit(Invalid):
    """The account's credit would become larger than can be kept."""


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """How an account pays."""

    mode: PaymentMode
    monthly_budget: int | None
    """Credits a calendar month (UTC); None: as much as it likes."""


class CreditLedger:
    """Grants, reserves and answers what is left; debits come with receipts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def balance(self, account_id: AccountId) -> CreditBalance:
        """What an account was granted, has spent and has left."""
        async with self._database.snapshot() as reader:
            return await find_balance(reader, account_id)

    async def grant(
        self,
        account_id: AccountId,
        credits_: int,
        *,
        note: str | None = None,
        reference: str | None = None,
    ) -> CreditBalance:
        """Add credits; the same `reference` adds them once. Raises `ReferenceTaken`."""
        return await self._add("grant", account_id, credits_, note=note, reference=reference)

    async def adjust(
        self,
        account_id: AccountId,
        credits_: int,
        *,
        note: str | None = None,
        reference: str | None = None,
    ) -> CreditBalance:
        """Correct an account by credits of either sign; the same `reference` does it once."""
        return await self._add("adjustment", account_id, credits_, note=note, reference=reference)

    async def change_terms(
        self, account_id: AccountId, change: Callable[[AccountTerms], AccountTerms]
    ) -> CreditBalance:
        """Change how an account pays, given how it pays now; nobody else changes that in between."""
        async with self._database.transaction() as tx:
            now = await lock_balance(tx, account_id)
            terms = change(AccountTerms(now.mode, now.monthly_budget))
            await update_terms(tx, account_id, terms.mode, terms.monthly_budget)
            return await find_balance(tx, account_id)

    async def reserve(self, tx: Transaction, run: RunKey, requested: int) -> int | None:
        """Set credits aside for a run: as many as wanted, or what is left; None where there is no limit.

        Raises `InsufficientCredits` when nothing is left that others have not set aside.
        """
        now = datetime.now(UTC)
        if (await find_balance(tx, run.account_id)).available(now) is None:
            return None
        available = (await lock_balance(tx, run.account_id)).available(now)
        if available is None:
            return None
        if available <= 0:
            raise InsufficientCredits
        reserved = min(max(requested, 1), available)
        await add_entry(tx, run.account_id, "reservation", -reserved, run_id=run.run_id)
        return reserved

    async def release(self, tx: Transaction, run: RunKey) -> None:
        """Give back what a run had set aside; a second time does nothing."""
        if await reserved_credits(tx, run) > 0:
            # Whoever releases at the same moment waits here, and finds nothing left to give back.
            await lock_balance(tx, run.account_id)
            await release_reservation(tx, run)

    async def resize_reservation(
        self, run: RunKey, requested: int, *, minimum: int | None = None, pending: int = 0
    ) -> int | None:
        """Let a run's reservation be as large as wanted, or what is left, if that covers `minimum`.

        `minimum` is `requested` unless given; `pending` credits are left out of account.
        Returns the credits the run might spend: its reservation and what nobody has reserved; None: any.
        If those are less than `minimum` and `pending`, nothing has changed. Runs at the same time, in all
        processes, ask one after the other.
        """
        floor = requested if minimum is None else minimum
        async with self._database.transaction() as tx:
            return await resize_reservation(
                tx, run, requested, minimum=floor, pending=pending, now=datetime.now(UTC)
            )

    async def _add(
        self,
        kind: str,
        account_id: AccountId,
        credits_: int,
        *,
        note: str | None,
        reference: str | None,
    ) -> CreditBalance:
        async with self._database.transaction() as tx:
            balance_before = await lock_balance(tx, account_id)
            if abs(credits_) + balance_before.granted + abs(balance_before.adjusted) > MAX_CREDITS:
                raise TooMuchCredit
            existing = None if reference is None else await find_entry_by_reference(tx, account_id, reference)
            if existing is None:
                await add_entry(tx, account_id, kind, credits_, note=note, reference=reference)
            elif existing != (kind, credits_):
                raise ReferenceTaken
            return await find_balance(tx, account_id)


def usd(credits_: int) -> Decimal:
    """Credits in dollars, exact."""
    return Decimal(credits_) / CREDITS_PER_DOLLAR
