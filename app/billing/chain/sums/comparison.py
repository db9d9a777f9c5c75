"""Compares an account's stored sums with its ledger and receipts."""

from collections.abc import AsyncIterator, Iterator, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from app.billing.chain.sums import repository
from app.billing.chain.sums.records import BALANCE_COLUMNS, LedgerSums, WrongRollup
from app.platform.db import Database, Reader
from app.platform.postgres.statements import plan_by_values

ROWS_PER_SLICE = 50_000
"""How much one statement reads, so that its time and memory do not grow with the account."""

MOST_ROLLUPS = 100
"""Rollups of an account that are named."""

_BEGINNING = "-infinity"


async def accounts_with_sums(database: Database) -> set[UUID]:
    """The accounts that any sum is stored for."""
    async with database.snapshot() as reader:
        return await repository.find_accounts_with_sums(reader)


async def wrong_sums(
    database: Database, account_id: UUID, *, rows_per_slice: int = ROWS_PER_SLICE
) -> list[str]:
    """How the stored sums of an account differ from what they are sums of.

    All is read in one snapshot, so that charges made meanwhile are in both or in neither.
    """
    async with database.snapshot() as reader:
        await plan_by_values(reader)
        recomputed = await repository.sum_ledger(reader, account_id, limit=rows_per_slice)
        recorded = await repository.find_account_sums(reader, account_id)
        found = [*_wrong_account(recorded, recomputed)]
        rollups = 0
        for wrong in await repository.find_wrong_budgets(reader, account_id, limit=MOST_ROLLUPS):
            place = f"its spending of the budget {_text(wrong.budget_id)}, {_shown(wrong.value)}"
            found += _differences(place, wrong.recorded, wrong.recomputed)
        async for rollup in _wrong_rollups(reader, account_id, rows_per_slice):
            rollups += 1
            if rollups > MOST_ROLLUPS:
                found.append("more usage rollups differ")
                break
            found += _differences(_place(rollup), rollup.recorded, rollup.recomputed)
    return [f"account {account_id}: {each}" for each in found]


def _wrong_account(recorded: Mapping[str, Any] | None, recomputed: LedgerSums) -> Iterator[str]:
    balance, months = recomputed.balance(), recomputed.spent_by_month()
    if recorded is None:
        if any(balance.values()) or months:
            yield from _differences("its row of credit_accounts", None, balance)
        return
    yield from _differences("its balance", {name: recorded[name] for name in BALANCE_COLUMNS}, balance)
    stored = recorded["spent_by_month"]
    if isinstance(stored, dict):
        yield from _differences("its spent_by_month", stored, months)
    else:
        yield f"its spent_by_month is recorded as {_shown(stored)} and recomputed as {_listed(months)}"


async def _wrong_rollups(reader: Reader, account_id: UUID, rows_per_slice: int) -> AsyncIterator[WrongRollup]:
    start: str | None = _BEGINNING
    while start is not None:
        end = await repository.find_slice_end(reader, account_id, start, most=rows_per_slice)
        # A slice that cannot advance, at the end of time, is the last one.
        end = None if end == start else end
        limit = MOST_ROLLUPS + 1
        for labelled in (False, True):
            for rollup in await repository.find_wrong_rollups(
                reader, account_id, start=start, end=end, labelled=labelled, limit=limit
            ):
                yield rollup
        start = end


def _differences(
    place: str, recorded: Mapping[str, Any] | None, recomputed: Mapping[str, Any] | None
) -> Iterator[str]:
    if recorded is None:
        yield f"{place} is missing; recomputed: {_listed(recomputed or {})}"
    elif recomputed is None:
        yield f"{place} has no receipts; recorded: {_listed(recorded)}"
    else:
        for name in sorted(recorded.keys() | recomputed.keys()):
            was, should = recorded.get(name), recomputed.get(name)
            # In Python, true is 1.
            if isinstance(was, bool) or was != should:
                values = f"recorded as {_shown(was)} and recomputed as {_shown(should)}"
                yield f"{place}: {_text(name)} is {values}"


def _place(rollup: WrongRollup) -> str:
    labelled = "" if rollup.label is None else f", {_text(rollup.label)} {_shown(rollup.value)}"
    return (
        f"its usage rollup of {rollup.bucket}, model {_shown(rollup.model)}, "
        f"graph {_shown(rollup.graph_id)}, key {rollup.api_key_id}{labelled}"
    )


def _listed(sums: Mapping[str, Any]) -> str:
    return ", ".join(f"{_text(name)} {_shown(value)}" for name, value in sums.items()) or "nothing"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return _text(f"{value:f}" if isinstance(value, Decimal) else value)


def _text(value: Any) -> str:
    """A value on one line, whatever characters it contains."""
    return ascii(str(value))[1:-1][:200]
