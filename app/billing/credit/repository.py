"""SQL for credit. Triggers keep the sums of `credit_accounts`; no statement here writes them."""

from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import ScalarSelect, bindparam, func, insert, literal, select, text
from sqlalchemy.dialects import postgresql

from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import DEFAULT_PRIORITY, CreditBalance, GrantTerms, LedgerEntry, month_of
from app.billing.credit.tables import credit_accounts, credit_ledger
from app.ids import AccountId, RunKey
from app.platform.db import Reader, Transaction

_ledger = credit_ledger.c
_accounts = credit_accounts.c


async def find_balance(reader: Reader, account_id: AccountId) -> CreditBalance:
    """The account's credit; post-paid and empty if it has no row."""
    found = await reader.execute(_BALANCE, {"account_id": account_id})
    row = found.mappings().one_or_none()
    return CreditBalance() if row is None else CreditBalance(**row)


async def lock_balance(tx: Transaction, account_id: AccountId) -> CreditBalance:
    """The account's credit, with its row locked until the transaction ends."""
    await tx.execute(
        postgresql.insert(credit_accounts).values(account_id=account_id).on_conflict_do_nothing()
    )
    found = await tx.execute(_LOCKED_BALANCE, {"account_id": account_id})
    return CreditBalance(**found.mappings().one())


async def add_entry(tx: Transaction, account_id: AccountId, kind: str, credits_: int, *, run_id: str) -> None:
    """Append what a run holds to the ledger; `credits_` is signed."""
    await tx.execute(
        insert(credit_ledger).values(
            account_id=account_id,
            kind=kind,
            credits=credits_,
            run_id=run_id,
            created_at=func.clock_timestamp(),
        )
    )


async def add_booked(
    tx: Transaction,
    account_id: AccountId,
    entry: LedgerEntry,
    *,
    balance: int,
    note: str | None,
    reference: str | None,
) -> None:
    """Append a grant or an adjustment to the ledger; the account is locked, `balance` is that with it."""
    await tx.execute(
        insert(credit_ledger).values(
            account_id=account_id,
            kind=entry.kind,
            credits=entry.credits,
            expires_at=entry.terms.expires_at,
            priority=entry.terms.priority,
            balance=balance,
            note=note,
            reference=reference,
            created_at=func.clock_timestamp(),
        )
    )


async def find_entry_by_reference(
    reader: Reader, account_id: AccountId, reference: str
) -> LedgerEntry | None:
    """The account's entry with this reference."""
    statement = select(_ledger.kind, _ledger.credits, _ledger.expires_at, _ledger.priority).where(
        _ledger.account_id == account_id, _ledger.reference == reference
    )
    row = (await reader.execute(statement)).one_or_none()
    if row is None:
        return None
    terms = GrantTerms(row.expires_at, row.priority or DEFAULT_PRIORITY)
    return LedgerEntry(row.kind, row.credits, terms)


async def reserved_credits(reader: Reader, run: RunKey) -> int:
    """The credits a run has reserved."""
    found = await reader.execute(_RESERVED, {"account_id": run.account_id, "run_id": run.run_id})
    return int(found.scalar_one())


_RESIZE_RESERVATION = text(
    """
    WITH account AS MATERIALIZED (
        SELECT account_id, least(
            CASE mode WHEN 'prepaid' THEN balance END,
            monthly_budget - coalesce((spent_by_month ->> :month)::bigint, 0)) - reserved AS available
          FROM credit_accounts WHERE account_id = :account_id
           AND (mode = 'prepaid' OR monthly_budget IS NOT NULL)
           FOR UPDATE
    ), own AS (
        SELECT coalesce(-sum(credits), 0)::bigint AS reserved FROM credit_ledger
         WHERE account_id = :account_id AND run_id = :run_id AND kind IN ('reservation', 'release')
    ), hold AS (
        SELECT CAST(:requested AS bigint) AS credits FROM account, own
         WHERE account.available + own.reserved - :pending >= :minimum
    ), entry AS (
        INSERT INTO credit_ledger (account_id, kind, credits, run_id, created_at)
        SELECT account_id, CASE WHEN own.reserved < hold.credits THEN 'reservation' ELSE 'release' END,
               own.reserved - hold.credits, :run_id, clock_timestamp()
          FROM account, own, hold
         WHERE own.reserved <> hold.credits
    )
    SELECT account.available + own.reserved FROM account, own
    """
)
"""A concurrent statement waits at the account's row and then reads it again, so this row alone decides what
is available. No other statement changes a run's own entries meanwhile."""


async def resize_reservation(
    tx: Transaction, run: RunKey, requested: int, *, minimum: int, pending: int, now: datetime
) -> int | None:
    """Set a run's reservation to `requested` if at least `minimum` is available.

    Returns the credits the run may spend; None if there is no limit.
    """
    parameters = {
        "account_id": run.account_id,
        "run_id": run.run_id,
        "requested": requested,
        "minimum": minimum,
        "pending": pending,
        "month": month_of(now),
    }
    found = (await tx.execute(_RESIZE_RESERVATION, parameters)).scalar_one_or_none()
    return None if found is None else int(found)


async def release_reservation(tx: Transaction, run: RunKey) -> None:
    """Release the credits a run has reserved, if any."""
    reserved = select(_reserved(run.account_id, run.run_id).label("credits")).subquery()
    await tx.execute(
        insert(credit_ledger).from_select(
            ["account_id", "kind", "credits", "run_id", "created_at"],
            select(
                literal(run.account_id, _ledger.account_id.type),
                literal("release"),
                reserved.c.credits,
                literal(run.run_id),
                func.clock_timestamp(),
            ).where(reserved.c.credits > 0),
        )
    )


async def update_terms(
    tx: Transaction, account_id: AccountId, mode: PaymentMode, monthly_budget: int | None
) -> None:
    """Set how an account pays."""
    terms = {"mode": mode, "monthly_budget": monthly_budget}
    await tx.execute(
        postgresql.insert(credit_accounts)
        .values(account_id=account_id, **terms)
        .on_conflict_do_update(index_elements=["account_id"], set_=terms)
    )


def _reserved(account_id: Any, run_id: Any) -> ScalarSelect[int]:
    return (
        select(func.coalesce(-func.sum(_ledger.credits), 0))
        .where(
            _ledger.account_id == account_id,
            _ledger.run_id == run_id,
            _ledger.kind.in_(["reservation", "release"]),
        )
        .scalar_subquery()
    )


_BALANCE = select(*(_accounts[field.name] for field in fields(CreditBalance))).where(
    _accounts.account_id == bindparam("account_id")
)
_LOCKED_BALANCE = _BALANCE.with_for_update()
_RESERVED = select(_reserved(bindparam("account_id"), bindparam("run_id")))
