"""SQL that recomputes sums. Times are read as text: altered ones may be outside of what Python has."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.engine import RowMapping

from app.billing.budgets.repository import TOKEN_COUNTS
from app.billing.chain.repository import accounts_in
from app.billing.chain.sums.records import LedgerSums, WrongRollup, WrongSpending
from app.billing.reports.tables import usage_rollups
from app.platform.db import Reader

_FIRST_ID = -(2**63)

_LEDGER = text(
    """
    SELECT kind, month, sum(credits) AS credits, max(id) AS last
      FROM (SELECT id, kind, credits, CASE kind WHEN 'debit' THEN
                       to_char(coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM') END AS month
              FROM credit_ledger WHERE account_id = :account_id AND id > :after
             ORDER BY id LIMIT :limit) AS part
     GROUP BY kind, month
    """
)

_ACCOUNT = text(
    """
    SELECT granted, adjusted, spent, reserved, CAST(spent_by_month AS text) AS spent_by_month
      FROM credit_accounts WHERE account_id = :account_id
    """
)

_ACCOUNTS = text(
    f"""
    {accounts_in("usage_rollups")}
    SELECT account_id FROM account WHERE account_id IS NOT NULL
     UNION SELECT account_id FROM credit_accounts
    """  # noqa: S608 - constants
)

_GROUPS = ("bucket", "model", "graph_id", "api_key_id")
_LABEL = ("label", "value")
_SUMS = [column.name for column in usage_rollups.columns if not column.primary_key]
_TIME = "CAST(CAST(:{} AS text) AS timestamptz)"
_BUCKET = "date_bin('15 minutes', used_at, 'epoch')"

_SLICE_END = text(
    f"""
    SELECT CAST({_BUCKET} + interval '15 minutes' AS text) AS slice_end
      FROM charge_receipts WHERE account_id = :account_id AND used_at >= {_TIME.format("start")}
     ORDER BY used_at LIMIT 1 OFFSET :most
    """  # noqa: S608 - constants
)


_COMPUTED = {
    "receipts": "count(*) FILTER (WHERE basis <> 'adjustment')",
    "web_fetch_requests": "sum(web_fetches_of(basis, provider_usage))",
}
"""What is no column of receipts."""


def _summed(name: str) -> str:
    return f"{_COMPUTED.get(name, f'sum({name})')} AS {name}"


def _wrong_rollups(*, bounded: bool, labelled: bool) -> str:
    """Without `OR :end IS NULL`, with which the index would be read to its end in every slice."""
    groups = (*_GROUPS, *_LABEL) if labelled else _GROUPS
    table = "labelled_rollups" if labelled else "usage_rollups"
    source = "charge_receipts, labels_of(end_user, tags)" if labelled else "charge_receipts"
    names = ", ".join(groups)

    def within(column: str) -> str:
        until = f"AND {column} < {_TIME.format('end')}" if bounded else ""
        return f"account_id = :account_id AND {column} >= {_TIME.format('start')} {until}"

    def row(side: str) -> str:
        return ", ".join(f"{side}.{name}" for name in _SUMS)

    return f"""
    WITH recorded AS (
        SELECT {", ".join((*groups, *_SUMS))} FROM {table} WHERE {within("bucket")}
    ), recomputed AS (
        SELECT {_BUCKET} AS {names}, {", ".join(map(_summed, _SUMS))}
          FROM {source} WHERE {within("used_at")} GROUP BY {names.replace("bucket", "1", 1)}
    )
    SELECT CAST(bucket AS text) AS bucket, model, graph_id, CAST(api_key_id AS text) AS api_key_id,
           {"label, value" if labelled else "NULL AS label, NULL AS value"},
           CAST(row_to_json(recorded) AS text) AS recorded,
           CAST(row_to_json(recomputed) AS text) AS recomputed
      FROM recorded FULL JOIN recomputed USING ({names})
     WHERE ({row("recorded")}) IS DISTINCT FROM ({row("recomputed")})
     ORDER BY {names} LIMIT :limit
    """  # noqa: S608 - constants


_WRONG = {
    (bounded, labelled): text(_wrong_rollups(bounded=bounded, labelled=labelled))
    for bounded in (True, False)
    for labelled in (True, False)
}


_WRONG_BUDGETS = text(
    f"""
    WITH current AS (
        SELECT budget.*, counted.*
          FROM budgets AS budget, budget_window(budget.window, budget.time_zone, now()) AS counted
         WHERE budget.account_id = :account_id
    ), kept AS (
        SELECT spent.budget_id, spent.value, spent.credits, spent.tokens
          FROM current JOIN budget_spending AS spent
            ON spent.account_id = current.account_id AND spent.budget_id = current.id
           AND spent.starts_at = current.starts_at
    ), recomputed AS (
        SELECT current.id AS budget_id, counted.value, sum(receipt.charged_credits) AS credits,
               sum({" + ".join(f"receipt.{name}" for name in TOKEN_COUNTS)}) AS tokens
          FROM current JOIN charge_receipts AS receipt
            ON receipt.account_id = current.account_id AND receipt.used_at >= current.starts_at
           AND (receipt.used_at < current.resets_at OR current.resets_at IS NULL)
         CROSS JOIN LATERAL budget_values(current.scope, current.match, receipt.api_key_id,
                            receipt.graph_id, receipt.end_user, receipt.tags) AS counted (value)
         GROUP BY 1, 2
    )
    SELECT budget_id, value, CAST(row_to_json(kept) AS text) AS recorded,
           CAST(row_to_json(recomputed) AS text) AS recomputed
      FROM kept FULL JOIN recomputed USING (budget_id, value)
     -- A budget that refuses the first call of a window has a row for it.
     WHERE (coalesce(kept.credits, 0), coalesce(kept.tokens, 0))
        <> (coalesce(recomputed.credits, 0), coalesce(recomputed.tokens, 0))
     ORDER BY budget_id, value LIMIT :limit
    """  # noqa: S608 - constants
)
"""Of the windows that decide now: earlier ones decide nothing any more."""


async def sum_ledger(reader: Reader, account_id: UUID, *, limit: int) -> LedgerSums:
    sums, after = LedgerSums(), _FIRST_ID
    while True:
        given = {"account_id": account_id, "after": after, "limit": limit}
        found = list((await reader.execute(_LEDGER, given)).mappings())
        if not found:
            return sums
        for row in found:
            sums.add(row["kind"], row["month"], int(row["credits"]))
        after = max(row["last"] for row in found)


async def find_account_sums(reader: Reader, account_id: UUID) -> dict[str, Any] | None:
    row = (await reader.execute(_ACCOUNT, {"account_id": account_id})).mappings().one_or_none()
    return None if row is None else {**row, "spent_by_month": _months(row["spent_by_month"])}


async def find_accounts_with_sums(reader: Reader) -> set[UUID]:
    return set((await reader.execute(_ACCOUNTS)).scalars())


async def find_slice_end(reader: Reader, account_id: UUID, start: str, *, most: int) -> str | None:
    """The end of the bucket in which an account has so many receipts since a time; None if it has not."""
    given = {"account_id": account_id, "start": start, "most": most}
    end: str | None = (await reader.execute(_SLICE_END, given)).scalar()
    return end


async def find_wrong_budgets(reader: Reader, account_id: UUID, *, limit: int) -> list[WrongSpending]:
    """What is spent of budgets of an account, where it is not the sum of receipts."""
    found = await reader.execute(_WRONG_BUDGETS, {"account_id": account_id, "limit": limit})
    return [WrongSpending(**_with_sums(row, ("credits", "tokens"))) for row in found.mappings()]


async def find_wrong_rollups(
    reader: Reader, account_id: UUID, *, start: str, end: str | None, labelled: bool, limit: int
) -> list[WrongRollup]:
    """Rollups of some time that are not the sums of their receipts, are missing, or have no receipts."""
    given = {"account_id": account_id, "start": start, "limit": limit}
    bound = {} if end is None else {"end": end}
    found = await reader.execute(_WRONG[bool(bound), labelled], {**given, **bound})
    return [WrongRollup(**_with_sums(row, _SUMS)) for row in found.mappings()]


def _with_sums(row: RowMapping, names: Sequence[str]) -> dict[str, Any]:
    """The row with these sums in place of their rows as JSON."""
    return {**row, **{part: _sums_of(row[part], names) for part in ("recorded", "recomputed")}}


def _sums_of(row: str | None, names: Sequence[str]) -> dict[str, Any] | None:
    if row is None:
        return None
    sums = _parsed(row)
    return {name: sums[name] for name in names}


def _months(column: str | None) -> Any:
    """The text itself if it cannot be read: anything may have been written there."""
    try:
        return None if column is None else _parsed(column)
    except (ValueError, RecursionError):
        return column


def _parsed(json_text: str) -> Any:
    # Not int, which refuses thousands of digits.
    return json.loads(json_text, parse_float=Decimal, parse_int=Decimal)
