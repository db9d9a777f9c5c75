"""SQL for credit. Triggers keep the sums of `credit_accounts`; no statement here writes them."""

from dataclasses import astuple, fields
from datetime import datetime

from sqlalchemy import bindparam, func, insert, select, text, update
from sqlalchemy.dialects import postgresql

from app.billing.credit import records
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.tables import credit_accounts, credit_ledger
from app.ids import AccountId, RunKey
from app.platform.db import Reader, Transaction

_ledger = credit_ledger.c
_accounts = credit_accounts.c


async def find_balance(reader: Reader, account_id: AccountId) -> records.CreditBalance:
    """The account's credit; post-paid and empty if it has no row."""
    found = await reader.execute(_BALANCE, {"account_id": account_id})
    row = found.mappings().one_or_none()
    return records.CreditBalance() if row is None else records.CreditBalance(**row)


async def lock_balance(tx: Transaction, account_id: AccountId) -> records.CreditBalance:
    """The account's credit, with its row locked until the transaction ends."""
    await tx.execute(
        postgresql.insert(credit_accounts).values(account_id=account_id).on_conflict_do_nothing()
    )
    found = await tx.execute(_LOCKED_BALANCE, {"account_id": account_id})
    return records.CreditBalance(**found.mappings().one())


async def add_booked(
    tx: Transaction,
    account_id: AccountId,
    entry: records.LedgerEntry,
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
) -> records.LedgerEntry | None:
    statement = select(_ledger.kind, _ledger.credits, _ledger.expires_at, _ledger.priority).where(
        _ledger.account_id == account_id, _ledger.reference == reference
    )
    row = (await reader.execute(statement)).one_or_none()
    if row is None:
        return None
    terms = records.GrantTerms(row.expires_at, row.priority or records.DEFAULT_PRIORITY)
    return records.LedgerEntry(row.kind, row.credits, terms)


_RESIZE_RESERVATION = text(
    """
    WITH account AS MATERIALIZED (
        SELECT account_id, CASE mode WHEN 'prepaid' THEN balance - reserved END AS available, reserved,
               EXISTS (SELECT FROM budgets WHERE budgets.account_id = :account_id) AS has_budgets,
               mode = 'prepaid' AND EXISTS (
                   SELECT FROM credit_ledger AS due
                    WHERE due.account_id = :account_id AND due.expires_at <= :now AND NOT EXISTS (
                          SELECT FROM credit_ledger AS expiry WHERE expiry.grant_id = due.id)) AS has_due
          FROM credit_accounts WHERE account_id = :account_id
           AND (mode = 'prepaid' OR EXISTS (SELECT FROM budgets WHERE budgets.account_id = :account_id))
           FOR UPDATE OF credit_accounts
    ), own AS (
        SELECT coalesce(-sum(credits), 0)::bigint AS reserved FROM credit_ledger
         WHERE account_id = :account_id AND run_id = :run_id AND kind IN ('reservation', 'release')
    ), hold AS (
        SELECT CAST(:requested AS bigint) AS credits FROM account, own
         WHERE NOT has_due
           AND (account.available IS NULL OR account.available + own.reserved - :pending >= :minimum)
    ), entry AS (
        INSERT INTO credit_ledger (account_id, kind, credits, run_id, created_at)
        SELECT account_id, CASE WHEN own.reserved < hold.credits THEN 'reservation' ELSE 'release' END,
               own.reserved - hold.credits, :run_id, clock_timestamp()
          FROM account, own, hold
         WHERE own.reserved <> hold.credits
    )
    SELECT coalesce(account.available + own.reserved, :requested + :pending) AS credits, has_budgets, has_due,
           account.reserved - own.reserved AS held
      FROM account, own
    """
)
"""A concurrent statement waits at the account's row and then reads it again, so this row alone decides what
is available; budgets are read by the next statement. No other one changes a run's own entries meanwhile."""


async def resize_reservation(
    tx: Transaction, run: RunKey, requested: int, *, minimum: int, pending: int, now: datetime
) -> records.Spendable | None:
    """Set a run's reservation to `requested` if at least `minimum` is available; locks the account's row.

    None if there is no limit, and no budget.
    """
    given = {"requested": requested, "minimum": minimum, "pending": pending, "now": now}
    row = (await tx.execute(_RESIZE_RESERVATION, {**run._asdict(), **given})).one_or_none()
    return None if row is None else records.Spendable(row.credits, row.has_budgets, row.has_due, row.held)


_RELEASE = text("SELECT release_credit(:account_id, :run_id)")


async def release_reservation(tx: Transaction, run: RunKey) -> None:
    """Release the credits a run has reserved, if any, and what it holds of budgets."""
    await tx.execute(_RELEASE, run._asdict())


async def update_mode(tx: Transaction, account_id: AccountId, mode: PaymentMode) -> None:
    inserted = postgresql.insert(credit_accounts).values(account_id=account_id, mode=mode)
    await tx.execute(
        inserted.on_conflict_do_update(index_elements=["account_id"], set_={"mode": inserted.excluded.mode})
    )


async def update_top_up(tx: Transaction, account_id: AccountId, top_up: records.TopUp | None) -> None:
    """Set when an account requests more credit; its row exists. A trigger requests it if that is now."""
    below, credits_, per_day = (None, None, None) if top_up is None else astuple(top_up)
    values = {"top_up_below": below, "top_up_credits": credits_, "top_up_per_day": per_day}
    await tx.execute(update(credit_accounts).where(_accounts.account_id == account_id).values(values))


_BALANCE = select(*(_accounts[field.name] for field in fields(records.CreditBalance))).where(
    _accounts.account_id == bindparam("account_id")
)
_LOCKED_BALANCE = _BALANCE.with_for_update()
