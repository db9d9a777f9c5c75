"""SQL for budgets. A trigger keeps what is spent of them; see the migrations."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects import postgresql

from app.billing.budgets.records import AccountBudget, Amount, BudgetLeft, BudgetUse
from app.billing.budgets.tables import budget_holds, budget_spending, budgets
from app.ids import AccountId, RunKey
from app.platform.db import Reader, Transaction

_budgets = budgets.c
_BUDGETS = select(*(_budgets[field.name] for field in fields(AccountBudget)))

_HELD = """
    SELECT coalesce(sum(hold.credits), 0)::bigint AS credits, coalesce(sum(hold.tokens), 0)::bigint AS tokens
      FROM budget_holds AS hold
      LEFT JOIN runs AS holder USING (account_id, run_id)
     WHERE hold.account_id = budget.account_id AND counted.value IS NOT NULL AND EXISTS (
           SELECT FROM budget_values(budget.scope, counted.value, holder.api_key_id, holder.graph_id,
                                     holder.end_user, holder.tags))
"""
"""What is held for runs that count for a value of a budget, `counted`."""

_SPENT = """
    LEFT JOIN budget_spending AS spent
      ON spent.account_id = budget.account_id AND spent.budget_id = budget.id
     AND spent.value = counted.value AND spent.starts_at = current.starts_at
"""

_OF_RUN = f"""
      FROM budgets AS budget
      LEFT JOIN runs AS run ON run.account_id = budget.account_id AND run.run_id = :run_id
     CROSS JOIN LATERAL budget_window(budget.window, budget.time_zone, :now) AS current
     CROSS JOIN LATERAL budget_values(budget.scope, budget.match, run.api_key_id, run.graph_id,
                                      run.end_user, run.tags) AS counted (value)
           {_SPENT}
     CROSS JOIN LATERAL ({_HELD} AND hold.run_id <> :run_id) AS held
     CROSS JOIN LATERAL (SELECT budget.credits - coalesce(spent.credits, 0) - held.credits AS credits,
                                budget.tokens - coalesce(spent.tokens, 0) - held.tokens AS tokens) AS unused
     WHERE budget.account_id = :account_id
"""

_LEFT = text(
    f"""
    SELECT budget.id, budget.mode, budget.scope = 'account' AS is_whole, current.resets_at,
           unused.credits, unused.tokens, held.credits AS held_credits, held.tokens AS held_tokens {_OF_RUN}
     ORDER BY current.resets_at DESC, budget.id
    """
)

_REFUSE = text(
    f"""
    INSERT INTO budget_spending AS known
           (account_id, budget_id, value, starts_at, credits, tokens, refused_at)
    SELECT budget.account_id, budget.id, counted.value, current.starts_at, 0, 0, clock_timestamp() {_OF_RUN}
       AND budget.mode = 'hard' AND (unused.credits < :credits OR unused.tokens < :tokens)
     ORDER BY budget.id, counted.value
    ON CONFLICT (account_id, budget_id, value, starts_at) DO UPDATE SET refused_at = excluded.refused_at
     WHERE known.refused_at IS NULL
    """
)

_USE = text(
    f"""
    SELECT nullif(counted.value, '') AS value, current.resets_at, coalesce(spent.credits, 0) AS spent_credits,
           coalesce(spent.tokens, 0) AS spent_tokens, held.credits AS held_credits,
           held.tokens AS held_tokens, budget.created_at, budget.updated_at
      FROM budgets AS budget
     CROSS JOIN LATERAL budget_window(budget.window, budget.time_zone, :now) AS current
     CROSS JOIN LATERAL (
           SELECT CASE budget.scope WHEN 'account' THEN '' ELSE coalesce(budget.match, (
                  SELECT each.value FROM budget_spending AS each
                   WHERE each.account_id = budget.account_id AND each.budget_id = budget.id
                     AND each.starts_at = current.starts_at
                   ORDER BY CASE WHEN budget.credits IS NULL THEN each.tokens ELSE each.credits END DESC,
                            each.value LIMIT 1)) END AS value) AS counted
           {_SPENT}
     CROSS JOIN LATERAL ({_HELD}) AS held
     WHERE budget.account_id = :account_id AND budget.id = :budget_id
    """  # noqa: S608 - constants
)
"""What is used by the only value of a budget, or by that which has used most."""

TOKEN_COUNTS = [
    f"{name}_tokens" for name in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
]
"""The counts of receipts and rollups that budgets of tokens limit."""
_COUNT = """
    INSERT INTO budget_spending (account_id, budget_id, value, starts_at, credits, tokens)
    SELECT account_id, :budget_id, value, starts_at, sum(charged_credits), sum(tokens)
      FROM (SELECT used.account_id, {value} AS value, current.starts_at, charged_credits, {tokens} AS tokens
              FROM {source},
                   budget_window(:window, :time_zone, :now) AS current
             WHERE used.account_id = :account_id AND used.bucket >= current.starts_at
               AND (used.bucket < current.resets_at OR current.resets_at IS NULL) AND {condition}) AS counted
     WHERE value = :match OR CAST(:match AS text) IS NULL
     GROUP BY account_id, value, starts_at
"""


_USED = "usage_rollups AS used"
_LABELLED = "labelled_rollups AS used"
_BY_KEY = f"{_USED}, budget_values('key', NULL, used.api_key_id, NULL, NULL, NULL) AS known"


def _count(value: str, source: str = _USED, condition: str = "true") -> str:
    return _COUNT.format(value=value, tokens=" + ".join(TOKEN_COUNTS), source=source, condition=condition)


_COUNTS = {
    "account": text(_count("''")),
    "key": text(_count("known", _BY_KEY)),
    "graph": text(_count("used.graph_id")),
    "endUser": text(_count("used.value", _LABELLED, "used.label = 'endUser'")),
    "tag": text(_count("substr(used.label, 5) || '=' || used.value", _LABELLED, "used.label LIKE 'tag:%'")),
}
"""What is spent in the current window, from the rollups: windows begin on their quarters of an hour."""


_CREDIT_ROW = text(
    "INSERT INTO credit_accounts (account_id) VALUES (:account_id) ON CONFLICT (account_id) DO NOTHING"
)
_LOCKED_CREDIT = text("SELECT FROM credit_accounts WHERE account_id = :account_id FOR UPDATE")


async def find_budgets(reader: Reader, account_id: AccountId) -> list[AccountBudget]:
    statement = _BUDGETS.where(_budgets.account_id == account_id).order_by(_budgets.id)
    return [AccountBudget(**row) for row in (await reader.execute(statement)).mappings()]


async def find_budget(reader: Reader, account_id: AccountId, budget_id: str) -> AccountBudget | None:
    statement = _BUDGETS.where(_budgets.account_id == account_id, _budgets.id == budget_id)
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else AccountBudget(**row)


async def find_use(reader: Reader, account_id: AccountId, budget_id: str, now: datetime) -> BudgetUse:
    """What is used of a budget, which exists."""
    given = {"account_id": account_id, "budget_id": budget_id, "now": now}
    row = (await reader.execute(_USE, given)).mappings().one()
    return BudgetUse(
        row["value"],
        Amount(row["spent_credits"], row["spent_tokens"]),
        Amount(row["held_credits"], row["held_tokens"]),
        row["resets_at"],
        row["created_at"],
        row["updated_at"],
    )


async def lock_credit(tx: Transaction, account_id: AccountId) -> None:
    """Lock the account's credit, as all do that debit or reserve it."""
    given = {"account_id": account_id}
    await tx.execute(_CREDIT_ROW, given)
    await tx.execute(_LOCKED_CREDIT, given)


async def store_budget(tx: Transaction, account_id: AccountId, budget: AccountBudget, now: datetime) -> None:
    """Insert or replace a budget, and count what is spent of it; the account's credit is locked."""
    key, values = {"account_id": account_id}, asdict(budget)
    insert = postgresql.insert(budgets).values(**key, **values)
    changed = {**values, "updated_at": func.now()}
    await tx.execute(insert.on_conflict_do_update(index_elements=["account_id", "id"], set_=changed))
    spending = budget_spending.c
    await tx.execute(
        delete(budget_spending).where(spending.account_id == account_id, spending.budget_id == budget.id)
    )
    counted = {"window": budget.window, "time_zone": budget.time_zone, "match": budget.match}
    await tx.execute(_COUNTS[budget.scope], {**key, "budget_id": budget.id, "now": now, **counted})


async def delete_budget(tx: Transaction, account_id: AccountId, budget_id: str) -> None:
    await tx.execute(delete(budgets).where(_budgets.account_id == account_id, _budgets.id == budget_id))


async def budgets_left(tx: Transaction, run: RunKey, now: datetime) -> Sequence[BudgetLeft]:
    """What budgets leave to a run, the last to reset first; the account's credit is locked.

    What other runs hold is not left.
    """
    given = {"account_id": run.account_id, "run_id": run.run_id, "now": now}
    rows = await tx.execute(_LEFT, given)
    return [
        BudgetLeft(
            *(row.id, row.mode, row.is_whole, row.resets_at, row.credits, row.tokens),
            held=Amount(row.held_credits, row.held_tokens),
        )
        for row in rows
    ]


async def mark_refusing(tx: Transaction, run: RunKey, needed: Amount, now: datetime) -> None:
    """Mark where hard budgets leave less than `needed` to a run; a trigger notifies of each once."""
    given = {"account_id": run.account_id, "run_id": run.run_id, "now": now, **needed._asdict()}
    await tx.execute(_REFUSE, given)


async def hold(tx: Transaction, run: RunKey, amount: Amount) -> None:
    """Hold what the calls of a run may cost, instead of what was held for them."""
    values = amount._asdict()
    insert = postgresql.insert(budget_holds).values(account_id=run.account_id, run_id=run.run_id, **values)
    await tx.execute(insert.on_conflict_do_update(index_elements=["account_id", "run_id"], set_=values))
