"""SQL for lists of the ledger, in the order of the account's hash chain."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import RowMapping

from app.billing.chain.tables import chain_links
from app.billing.credit.tables import credit_ledger
from app.ids import AccountId
from app.platform.db import Reader

_ledger, _links = credit_ledger.c, chain_links.c

_ENTRIES: Any = select(
    _links.position,
    *(column for column in credit_ledger.columns if column.name != "account_id"),
).join_from(chain_links, credit_ledger, _ledger.id == _links.entry_id)


async def find_entries(
    reader: Reader, account_id: AccountId, *, before: int | None, limit: int
) -> list[RowMapping]:
    """An account's entries before a position, newest first."""
    statement = _ENTRIES.where(_links.account_id == account_id).order_by(_links.position.desc()).limit(limit)
    if before is not None:
        statement = statement.where(_links.position < before)
    return list((await reader.execute(statement)).mappings())
