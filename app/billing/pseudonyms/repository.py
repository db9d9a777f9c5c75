"""SQL that replaces an end user on receipts, in sums and in budgets by its hash."""

from sqlalchemy import delete, select, text

from app.billing.pseudonyms.tables import end_user_salts
from app.billing.receipts.tables import charge_receipts, fenced_receipts
from app.billing.reports.tables import labelled_rollups
from app.ids import AccountId
from app.platform.db import Transaction
from app.requests.attribution import END_USER_LABEL

_KEY = [column.name for column in labelled_rollups.primary_key]
_SUMS = [column.name for column in labelled_rollups.c if not column.primary_key]
_COMPUTED = {
    "receipts": "count(*) FILTER (WHERE basis <> 'adjustment')",
    "web_fetch_requests": "sum(web_fetches_of(basis, provider_usage))",
}
_SOURCES = {"label": f"'{END_USER_LABEL}'", "bucket": "date_bin('15 minutes', used_at, 'epoch')"}
_ORDER = ", ".join(str(number) for number in range(1, len(_KEY) + 1))


def _erase(table: str) -> str:
    """Some receipts of an end user get its hash."""
    return f"""
    UPDATE {table} AS receipt SET end_user = end_user_hash(:account_id, :end_user)
     WHERE receipt.id IN (SELECT id FROM {table} WHERE account_id = :account_id AND end_user = :end_user
                           ORDER BY used_at LIMIT :most)
    RETURNING receipt.*
    """  # noqa: S608 - constants


# In the order of the trigger that adds receipts, so that none can deadlock. The old value is in `side`: the
# rows returned have the new one.
_MOVE = text(
    f"""
    WITH erased AS ({_erase(charge_receipts.name)}), moved AS (
        INSERT INTO labelled_rollups AS held ({", ".join((*_KEY, *_SUMS))})
        SELECT {", ".join(_SOURCES.get(name, name) for name in _KEY)},
               {", ".join(f"sign * {_COMPUTED.get(name, f'sum({name})')}" for name in _SUMS)}
          FROM erased, LATERAL (VALUES (end_user, 1), (:end_user, -1)) AS side (value, sign)
         GROUP BY {_ORDER}, sign ORDER BY {_ORDER}
        ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET
            {", ".join(f"{name} = held.{name} + excluded.{name}" for name in _SUMS)}
    )
    SELECT count(*) FROM erased
    """  # noqa: S608 - names of columns
)
_MOVE_FENCED = text(_erase(fenced_receipts.name))


async def replace_end_user(tx: Transaction, account_id: AccountId, end_user: str, *, most: int) -> int:
    """Replace an end user by its hash on some receipts and in their sums; returns on how many."""
    given = {"account_id": account_id, "end_user": end_user, "most": most}
    moved: int = (await tx.execute(_MOVE, given)).scalar_one()
    moved += len((await tx.execute(_MOVE_FENCED, given)).all())
    sums = labelled_rollups.c
    is_empty = [sums[name] == 0 for name in _SUMS]
    is_named = (sums.account_id == account_id, sums.label == END_USER_LABEL, sums.value == end_user)
    await tx.execute(delete(labelled_rollups).where(*is_named, *is_empty))
    return moved


async def find_hash(tx: Transaction, account_id: AccountId, end_user: str) -> str:
    statement = text("SELECT end_user_hash(:account_id, :end_user)")
    found: str = (await tx.execute(statement, {"account_id": account_id, "end_user": end_user})).scalar_one()
    return found


async def delete_salt(tx: Transaction, account_id: AccountId, end_user: str) -> str | None:
    """Delete what ties an end user to its hash, also in budgets, and return that.

    None if a receipt still names the end user; then nothing is deleted.

    Links are written while the account's credit is locked: none can read the salt between both statements.
    """
    given = {"account_id": account_id, "end_user": end_user}
    await tx.execute(_LOCK, given)
    is_named = (charge_receipts.c.account_id == account_id, charge_receipts.c.end_user == end_user)
    if (await tx.execute(select(charge_receipts.c.id).where(*is_named).limit(1))).first() is not None:
        return None
    hashed = await find_hash(tx, account_id, end_user)
    for statement in (_NAME_BUDGETS, _NAME_SPENDING):
        await tx.execute(statement, given)
    salts = end_user_salts.c
    is_salt = (salts.account_id == account_id, salts.end_user == end_user)
    await tx.execute(delete(end_user_salts).where(*is_salt))
    return hashed


_LOCK = text("SELECT FROM credit_accounts WHERE account_id = :account_id FOR UPDATE")
_NAME_BUDGETS = text(
    """
    UPDATE budgets SET match = end_user_hash(:account_id, :end_user)
     WHERE account_id = :account_id AND scope = 'endUser' AND match = :end_user
    """
)
_NAME_SPENDING = text(
    """
    WITH named AS (
        DELETE FROM budget_spending AS spent USING budgets
         WHERE spent.account_id = :account_id AND spent.value = :end_user AND budgets.scope = 'endUser'
           AND budgets.account_id = :account_id AND budgets.id = spent.budget_id
        RETURNING spent.*
    )
    INSERT INTO budget_spending AS held (account_id, budget_id, value, starts_at, credits, tokens, reached_at,
                                         refused_at)
    SELECT account_id, budget_id, end_user_hash(:account_id, :end_user), starts_at, credits, tokens,
           reached_at, refused_at
      FROM named
    ON CONFLICT (account_id, budget_id, value, starts_at) DO UPDATE
       SET credits = held.credits + excluded.credits, tokens = held.tokens + excluded.tokens
    """
)
