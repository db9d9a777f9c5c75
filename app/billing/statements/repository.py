"""SQL for statements."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import exists, func, select, text
from sqlalchemy.dialects import postgresql

from app.billing.chain.records import ChainHead
from app.billing.chain.tables import chain_links
from app.billing.credit.tables import credit_accounts, credit_ledger
from app.billing.statements.records import BOOKED_KINDS, StoredStatement
from app.billing.statements.tables import billing_statements
from app.ids import AccountId
from app.platform.db import Reader, Transaction

_ledger, _links, _statements = credit_ledger.c, chain_links.c, billing_statements.c
_STORED = [_statements[field.name] for field in fields(StoredStatement)]


async def find_accounts_without(reader: Reader, month: str, *, end: datetime) -> list[AccountId]:
    accounts = credit_accounts.c.account_id
    first = (
        select(_ledger.created_at)
        .where(_ledger.account_id == accounts)
        .order_by(_ledger.id)
        .limit(1)
        .scalar_subquery()
    )
    made = exists().where(_statements.account_id == accounts, _statements.month == month)
    return list((await reader.execute(select(accounts).where(~made, first < end))).scalars())


async def sum_booked(reader: Reader, account_id: AccountId, *, end: datetime) -> dict[str, int]:
    """Grants, adjustments and expiries of an account before a moment, by kind."""
    statement = (
        select(_ledger.kind, func.sum(_ledger.credits).label("credits"))
        .where(_ledger.account_id == account_id, _ledger.kind.in_(BOOKED_KINDS), _ledger.created_at < end)
        .group_by(_ledger.kind)
    )
    return {row.kind: int(row.credits) for row in await reader.execute(statement)}


async def find_first_booked(reader: Reader, account_id: AccountId) -> datetime | None:
    """When the account's first grant or adjustment was entered."""
    statement = select(func.min(_ledger.created_at)).where(
        _ledger.account_id == account_id, _ledger.kind.in_(BOOKED_KINDS)
    )
    found: datetime | None = (await reader.execute(statement)).scalar()
    return found


async def find_head(reader: Reader, account_id: AccountId) -> ChainHead:
    """The newest link of an account that has one."""
    statement = (
        select(_links.position, _links.hash)
        .where(_links.account_id == account_id)
        .order_by(_links.position.desc())
        .limit(1)
    )
    row = (await reader.execute(statement)).one()
    return ChainHead(row.position, bytes(row.hash))


async def find_link(reader: Reader, account_id: AccountId, position: int) -> str | None:
    statement = select(_links.hash).where(_links.account_id == account_id, _links.position == position)
    found: bytes | None = (await reader.execute(statement)).scalar()
    return None if found is None else bytes(found).hex()


_ENTRIES = text(
    """
    SELECT kind, coalesce(to_char(coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM'), '') AS month,
           CAST(sum(credits) AS bigint) AS credits
      FROM chain_links JOIN credit_ledger ON credit_ledger.id = chain_links.entry_id
     WHERE chain_links.account_id = :account_id AND position > :after AND position <= :until
       AND kind IN ('grant', 'adjustment', 'expiry', 'debit')
     GROUP BY 1, 2
    """
)


async def sum_entries(
    reader: Reader, account_id: AccountId, after: int, until: int
) -> dict[tuple[str, str], int]:
    """Credits of a part of an account's chain by kind and month: of debits that of use, else of entry."""
    found = await reader.execute(_ENTRIES, {"account_id": account_id, "after": after, "until": until})
    return {(row.kind, row.month): row.credits for row in found}


async def find_accounts_with(reader: Reader) -> list[AccountId]:
    statement = select(_statements.account_id).distinct().order_by(_statements.account_id)
    return list((await reader.execute(statement)).scalars())


async def find_statements(
    reader: Reader, account_id: AccountId, *, before: str | None = None, limit: int | None = None
) -> Sequence[StoredStatement]:
    """The statements of an account, newest first; those before a month."""
    statement = select(*_STORED).where(_statements.account_id == account_id)
    if before is not None:
        statement = statement.where(_statements.month < before)
    found = await reader.execute(statement.order_by(_statements.month.desc()).limit(limit))
    return [StoredStatement(**row) for row in found.mappings()]


async def find_statement(reader: Reader, account_id: AccountId, month: str) -> StoredStatement | None:
    """The statement of a month, if it was made."""
    statement = select(*_STORED).where(_statements.account_id == account_id, _statements.month == month)
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else StoredStatement(**row)


async def insert_statement(tx: Transaction, account_id: AccountId, made: StoredStatement) -> bool:
    """Store a statement unless another process has; whether it was stored."""
    values = {"account_id": account_id, **asdict(made)}
    inserted = postgresql.insert(billing_statements).values(values).on_conflict_do_nothing()
    return (await tx.execute(inserted.returning(_statements.month))).scalar() is not None
