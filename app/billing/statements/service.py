"""Statements: makes those of finished months, and reads them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from hashlib import sha256

import structlog

from app.billing.chain.sealing import ChainSealer
from app.billing.credit.records import month_of
from app.billing.credit.repository import find_balance
from app.billing.reports.records import GroupBy, UsageFilter
from app.billing.reports.usage_repository import grouped_usage
from app.billing.statements import repository
from app.billing.statements.records import (
    FORMAT,
    MonthSums,
    Statement,
    StatementPart,
    StoredStatement,
    content_of,
    month_after,
    month_before,
    month_start,
)
from app.errors import NotFound
from app.ids import AccountId
from app.platform.background import AFTER_START_S, forever
from app.platform.clock.clock import Clock
from app.platform.db import Database, Reader

log = structlog.get_logger(__name__)

SETTLED_AFTER = timedelta(hours=1)
"""After a month's end: messages that began in it have ended, and their receipts are stored."""

_EVERY_S = 600.0


class StatementNotFound(NotFound):
    """There is no statement of this month."""

    code = "statement_not_found"


class Statements:
    """Reads statements."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, account_id: AccountId, month: str) -> StoredStatement:
        """The statement of a month; raises `StatementNotFound`."""
        async with self._database.read() as reader:
            if (found := await repository.find_statement(reader, account_id, month)) is None:
                raise StatementNotFound
        return found

    async def list_statements(
        self, account_id: AccountId, *, before: str | None, limit: int
    ) -> tuple[Sequence[StoredStatement], str | None]:
        """Statements, newest first, and the cursor of the next page: its `before`."""
        async with self._database.read() as reader:
            found = await repository.find_statements(reader, account_id, before=before, limit=limit + 1)
        page = found[:limit]
        return page, page[-1].month if len(found) > limit else None


@dataclass(frozen=True, slots=True)
class StatementMaker:
    """Several processes may do so at once: the first one stores a statement, and it is never changed."""

    database: Database
    chain: ChainSealer
    clock: Clock

    async def watch(self) -> None:
        """Make statements of finished months until cancelled."""
        await forever(self.make_due, _EVERY_S, name="statements", first_after_s=AFTER_START_S)

    async def make_due(self) -> None:
        """Make all that are missing, the oldest first."""
        if not await self.chain.may_sign():
            return
        last = month_before(month_of(self.clock.now() - SETTLED_AFTER))
        end = month_start(month_after(last))
        async with self.database.read() as reader:
            accounts = await repository.find_accounts_without(reader, last, end=end)
        for account_id in accounts:
            while await self._make_next(account_id, last):
                pass

    async def _make_next(self, account_id: AccountId, last: str) -> bool:
        """Make the account's next statement; False if that is of a month after `last`."""
        async with self.database.snapshot() as reader:
            earlier = await repository.find_statements(reader, account_id)
            month = month_after(earlier[0].month) if earlier else await _first_month(reader, account_id)
            if month is None or month > last:
                return False
            statement = await _statement(reader, account_id, month, earlier=earlier)
        content = json.dumps(asdict(statement))
        key, signature = self.chain.sign(content)
        made = StoredStatement(month, content, key, signature, self.clock.now())
        async with self.database.transaction() as tx:
            is_new = await repository.insert_statement(tx, account_id, made)
        if is_new:
            log.info("statement.made", account_id=str(account_id), month=month, key=key)
        return True


async def _first_month(reader: Reader, account_id: AccountId) -> str | None:
    months = [*(await find_balance(reader, account_id)).spent_by_month]
    if (booked := await repository.find_first_booked(reader, account_id)) is not None:
        months.append(month_of(booked))
    return min(months, default=None)


async def _statement(
    reader: Reader, account_id: AccountId, month: str, *, earlier: Sequence[StoredStatement]
) -> Statement:
    end = month_start(month_after(month))
    spent = (await find_balance(reader, account_id)).spent_by_month
    sums = MonthSums.of(
        month,
        booked=await repository.sum_booked(reader, account_id, end=end),
        debits={each: -credits_ for each, credits_ in spent.items()},
        earlier=[content_of(each) for each in earlier],
    )
    window = UsageFilter(since=month_start(month), until=end)
    head = await repository.find_head(reader, account_id)
    return Statement(
        format=FORMAT,
        account_id=str(account_id),
        month=month,
        **sums.amounts(content_of(earlier[0]).closing if earlier else 0),
        by_model=await _parts(reader, account_id, "model", window),
        by_graph=await _parts(reader, account_id, "graph", window),
        by_key=await _parts(reader, account_id, "key", window),
        chain_position=head.position,
        chain_hash=head.hash.hex(),
        previous=sha256(earlier[0].content.encode()).hexdigest() if earlier else None,
    )


async def _parts(
    reader: Reader, account_id: AccountId, group: GroupBy, window: UsageFilter
) -> list[StatementPart]:
    found = await grouped_usage(reader, account_id, group, filters=window, time_zone="UTC")
    return [StatementPart(each.group or "", each.sums.receipts, -each.sums.charged_credits) for each in found]
