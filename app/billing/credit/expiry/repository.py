"""SQL for grants that expire."""

from datetime import datetime

from sqlalchemy import bindparam, exists, func, insert, select

from app.billing.credit.expiry.records import CreditEntry
from app.billing.credit.tables import credit_ledger
from app.billing.receipts.tables import charge_receipts
from app.ids import AccountId
from app.platform.db import Reader, Transaction

_ledger, _receipts = credit_ledger.c, charge_receipts.c
_expiries = credit_ledger.alias("expiries")

_IS_DUE = (
    _ledger.expires_at <= bindparam("now"),
    ~exists().where(_expiries.c.grant_id == _ledger.id),
)
_DUE = select(_ledger.id, _ledger.expires_at).where(_ledger.account_id == bindparam("account_id"), *_IS_DUE)
_ORDERED_DUE = _DUE.order_by(_ledger.expires_at, _ledger.id)
_DUE_ACCOUNTS = select(_ledger.account_id).where(*_IS_DUE).distinct()

_ENTRIES = (
    select(*(_ledger[name] for name in CreditEntry._fields))
    .where(
        _ledger.account_id == bindparam("account_id"),
        _ledger.kind.in_(["grant", "adjustment", "expiry"]),
        _ledger.balance.is_not(None),
    )
    .order_by(_ledger.id)
)

_SPENT_SINCE = select(func.coalesce(func.sum(_receipts.charged_credits), 0)).where(
    _receipts.account_id == bindparam("account_id"), _receipts.used_at >= bindparam("since")
)


async def find_due(reader: Reader, account_id: AccountId, now: datetime) -> list[tuple[int, datetime]]:
    """The account's grants that have expired without an entry that says so, and when."""
    found = await reader.execute(_ORDERED_DUE, {"account_id": account_id, "now": now})
    return [(row.id, row.expires_at) for row in found]


async def find_accounts_with_due(reader: Reader, now: datetime) -> list[AccountId]:
    """The accounts that have such grants."""
    return list((await reader.execute(_DUE_ACCOUNTS, {"now": now})).scalars())


async def find_credit_entries(reader: Reader, account_id: AccountId) -> list[CreditEntry]:
    """The grants, adjustments and expiries of an account, the oldest first."""
    found = await reader.execute(_ENTRIES, {"account_id": account_id})
    return [CreditEntry(**row) for row in found.mappings()]


async def spent_since(reader: Reader, account_id: AccountId, moment: datetime) -> int:
    """What messages cost that began at a moment or later."""
    found = await reader.execute(_SPENT_SINCE, {"account_id": account_id, "since": moment})
    return int(found.scalar_one())


async def add_expiry(
    tx: Transaction, account_id: AccountId, grant_id: int, credits_: int, *, balance: int
) -> None:
    """Append the end of a grant to the ledger; the account is locked."""
    await tx.execute(
        insert(credit_ledger).values(
            account_id=account_id,
            kind="expiry",
            credits=credits_,
            grant_id=grant_id,
            balance=balance,
            created_at=func.clock_timestamp(),
        )
    )
