"""Checks statements: their signatures and order, and that their sums are those of the ledger."""

from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from app.billing.chain.verifier import PublicKeys, is_signed
from app.billing.statements.records import (
    MonthSums,
    Statement,
    StoredStatement,
    content_of,
    month_after,
)
from app.billing.statements.repository import find_accounts_with, find_link, find_statements, sum_entries
from app.ids import AccountId
from app.platform.db import Database, Reader

ROWS_PER_SLICE = 50_000
"""How much one query sums up, so that its time does not grow with the account."""


async def wrong_statements(
    database: Database, keys: PublicKeys, *, rows_per_slice: int = ROWS_PER_SLICE
) -> list[str]:
    """What is wrong with the statements of all accounts.

    A statement names the length of its account's chain, so what it must say follows to the last entry.
    """
    async with database.snapshot() as reader:
        accounts = await find_accounts_with(reader)
    found: list[str] = []
    for account_id in accounts:
        async with database.snapshot() as reader:
            found += [
                f"account {account_id}, statement {problem}"
                async for problem in _Account(account_id, keys, rows_per_slice).problems(reader)
            ]
    return found


class _Account:
    """The statements of an account, read in order."""

    def __init__(self, account_id: AccountId, keys: PublicKeys, rows_per_slice: int) -> None:
        self._account_id = account_id
        self._keys = keys
        self._rows_per_slice = rows_per_slice
        self._entries = Counter[tuple[str, str]]()
        """Credits by kind and month of what the chain had."""
        self._summed_until = 0

    async def problems(self, reader: Reader) -> AsyncIterator[str]:
        before: StoredStatement | None = None
        earlier: list[Statement] = []
        for stored in reversed(await find_statements(reader, self._account_id)):
            try:
                said = content_of(stored)
            except ValueError:
                # What follows is compared with it.
                yield f"{stored.month}: its content cannot be read"
                return
            for problem in (*self._order(stored, said, before), *self._signing(stored, before)):
                yield f"{stored.month}: {problem}"
            if await find_link(reader, self._account_id, said.chain_position) != said.chain_hash:
                yield f"{stored.month}: its chain_hash is not that of the account's chain"
            await self._sum_until(reader, said.chain_position)
            recomputed = self._recomputed(said.month, earlier)
            for name, value in recomputed.items():
                if (recorded := getattr(said, name)) != value:
                    yield f"{stored.month}: its {name} is recorded as {recorded} and recomputed as {value}"
            before = stored
            # As it should be: what is wrong is named once.
            earlier.append(replace(said, **recomputed))

    def _order(
        self, stored: StoredStatement, said: Statement, before: StoredStatement | None
    ) -> Iterator[str]:
        if (said.account_id, said.month) != (str(self._account_id), stored.month):
            yield f"it is that of account {said.account_id} for {said.month}"
        expected = None if before is None else sha256(before.content.encode()).hexdigest()
        if said.previous != expected or (before is not None and stored.month != month_after(before.month)):
            yield "it does not follow the one before"

    def _signing(self, stored: StoredStatement, before: StoredStatement | None) -> Iterator[str]:
        if stored.key is None or stored.signature is None:
            if before is not None and before.key is not None:
                yield "it is not signed, but the one before is"
        elif not is_signed(stored.content, stored.key, b64encode(stored.signature).decode(), self._keys):
            yield "its signature is not that of a trusted key"

    async def _sum_until(self, reader: Reader, position: int) -> None:
        while self._summed_until < position:
            until = min(self._summed_until + self._rows_per_slice, position)
            self._entries.update(await sum_entries(reader, self._account_id, self._summed_until, until))
            self._summed_until = until

    def _recomputed(self, month: str, earlier: Sequence[Statement]) -> dict[str, Any]:
        booked, debits = Counter[str](), Counter[str]()
        for (kind, entered), credits_ in self._entries.items():
            if kind == "debit":
                debits[entered] += credits_
            elif entered <= month:
                booked[kind] += credits_
        sums = MonthSums.of(month, booked=booked, debits=debits, earlier=earlier)
        return sums.amounts(earlier[-1].closing if earlier else 0)
