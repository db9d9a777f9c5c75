"""The records of an export, in the order in which `ExportVerifier` reads them.

An export shows the rows as they are now, in the text that was chained if it still stands for them.
"""

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from app.billing.chain.records import ChainLink, ChainRoot, LinkedRow, RootLeaf
from app.billing.chain.repository import find_accounts, find_linked_rows, find_roots, find_unchained
from app.billing.chain.row_comparison import as_it_is
from app.billing.chain.verifier import EXPORT_FORMAT, AccountTree, leaf_hash
from app.platform.concurrency.time_slice import TimeSlice
from app.platform.db import Database

_PAGE = 200
_MOST_UNCHAINED = 100
"""Entries, receipts and leaves outside a chain that are listed, each."""

Record = dict[str, Any]


class ProvingTree(AccountTree):
    """A tree that also proves what is in it."""

    def proof(self, index: int) -> list[bytes]:
        """The siblings on the way from a leaf to the root."""
        found = []
        for level in self._levels:
            if (index ^ 1) < len(level):
                found.append(level[index ^ 1])
            index //= 2
        return found


async def account_records(database: Database, account_id: UUID) -> AsyncIterator[Record]:
    """One account's chain, all roots, and proofs that they contain it: nothing of other accounts."""
    yield header_record([account_id], complete=False)
    tree, time_slice = ProvingTree(), TimeSlice()
    own: RootLeaf | None = None
    async for root, leaves in all_roots(database):
        yield root_record(root)
        for leaf in leaves:
            await time_slice.checkpoint()
            tree.put(leaf.leaf_index, leaf_hash(str(leaf.account_id), leaf.position, leaf.hash))
            own = leaf if leaf.account_id == account_id else own
        if own is not None:
            proof = [sibling.hex() for sibling in tree.proof(own.leaf_index)]
            yield {**leaf_record(own), "proof": proof}
    async for record in _chains(database, [account_id]):
        yield record


async def all_records(database: Database) -> AsyncIterator[Record]:
    """The chains of all accounts, and all roots with the leaves that they changed, without proofs."""
    accounts = await all_accounts(database)
    yield header_record(accounts, complete=True)
    async for root, leaves in all_roots(database):
        yield root_record(root)
        for leaf in leaves:
            yield leaf_record(leaf)
    async for record in _chains(database, accounts):
        yield record


async def linked_rows(database: Database, account_id: UUID) -> AsyncIterator[LinkedRow]:
    """The chain of an account, with the rows it was made from."""
    position, time_slice = 0, TimeSlice()
    while True:
        async with database.snapshot() as reader:
            rows = await find_linked_rows(reader, account_id, after=position, limit=_PAGE)
        for row in rows:
            await time_slice.checkpoint()
            yield row
        if not rows:
            return
        position = rows[-1].link.position


async def unchained_records(database: Database, account_id: UUID) -> list[Record]:
    """The entries and receipts of an account that are in no chain, and its leaves whose root is missing."""
    async with database.snapshot() as reader:
        names = await find_unchained(reader, account_id, limit=_MOST_UNCHAINED)
    return [{"type": "unchained", "name": name} for name in names]


async def all_accounts(database: Database) -> list[UUID]:
    async with database.snapshot() as reader:
        return await find_accounts(reader)


def header_record(accounts: Iterable[UUID], *, complete: bool) -> Record:
    """The first record; `complete`: the accounts are all there are."""
    names = [str(account_id) for account_id in accounts]
    return {"type": "export", "format": EXPORT_FORMAT, "complete": complete, "accounts": names}


def account_record(account_id: UUID) -> Record:
    """What comes before the links of an account."""
    return {"type": "account", "account_id": str(account_id)}


def link_record(link: ChainLink) -> Record:
    return {"type": "link", "position": link.position, "content": link.content, "hash": link.hash.hex()}


def root_record(root: ChainRoot) -> Record:
    signature = base64.b64encode(root.signature).decode()
    return {"type": "root", "statement": root.statement, "signature": signature}


def leaf_record(leaf: RootLeaf) -> Record:
    """What a root says of an account."""
    return {
        "type": "leaf",
        "account_id": str(leaf.account_id),
        "index": leaf.leaf_index,
        "position": leaf.position,
        "hash": leaf.hash.hex(),
    }


async def all_roots(database: Database) -> AsyncIterator[tuple[ChainRoot, Sequence[RootLeaf]]]:
    number = 0
    while True:
        async with database.snapshot() as reader:
            page = await find_roots(reader, after=number, limit=_PAGE)
        for root in page.roots:
            yield root, page.leaves.get(root.number, ())
        if not page.roots:
            return
        number = page.roots[-1].number


async def _chains(database: Database, accounts: Sequence[UUID]) -> AsyncIterator[Record]:
    total = 0
    for account_id in accounts:
        yield account_record(account_id)
        async for row in linked_rows(database, account_id):
            if (content := as_it_is(row)) is not None:
                total += 1
                yield link_record(replace(row.link, content=content))
        for record in await unchained_records(database, account_id):
            yield record
    yield {"type": "end", "links": total}
