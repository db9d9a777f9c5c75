"""SQL for the chains. A trigger of the ledger writes the links; no statement here does."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, insert, select, text

from app.billing.chain.records import (
    ChainHead,
    ChainLeaf,
    ChainLink,
    ChainRoot,
    LinkedRow,
    RootLeaf,
    RootPage,
)
from app.billing.chain.tables import chain_leaves, chain_roots
from app.platform.db import Reader, Transaction

_leaves = chain_leaves.c


def accounts_in(table: str) -> str:
    """`account`: the accounts of a table with an index that begins with them, and a null.

    One look into the index for each; `DISTINCT` would read every row.
    """
    return f"""
    WITH RECURSIVE account AS (
        (SELECT account_id FROM {table} ORDER BY account_id LIMIT 1)
        UNION ALL
        SELECT (SELECT account_id FROM {table} AS next WHERE next.account_id > account.account_id
                 ORDER BY account_id LIMIT 1)
          FROM account WHERE account_id IS NOT NULL
    )
    """  # noqa: S608 - names of tables


_HEADS = text(
    f"""
    {accounts_in("chain_links")}
    SELECT account.account_id, head.position, head.hash
      FROM account
     CROSS JOIN LATERAL (
         SELECT position, hash FROM chain_links AS link
          WHERE link.account_id = account.account_id ORDER BY position DESC LIMIT 1
     ) AS head
    """  # noqa: S608 - constants
)

_ALL_ACCOUNTS = text(
    f"""
    {accounts_in("chain_links")}
    SELECT account_id FROM account WHERE account_id IS NOT NULL
     UNION SELECT id FROM accounts
     UNION SELECT account_id FROM chain_leaves
     ORDER BY account_id
    """  # noqa: S608 - constants
)

_HELD = text(
    """
    SELECT link.account_id
      FROM unnest(CAST(:accounts AS uuid[]), CAST(:positions AS bigint[]), CAST(:hashes AS bytea[]))
           AS known (account_id, position, hash)
      JOIN chain_links AS link USING (account_id, position, hash)
    """
)

_NEWEST_LEAVES = text(
    f"""
    {accounts_in("chain_leaves")}
    SELECT leaf.*
      FROM account
     CROSS JOIN LATERAL (
         SELECT account_id, leaf_index, position, hash FROM chain_leaves AS leaf
          WHERE leaf.account_id = account.account_id ORDER BY root_number DESC LIMIT 1
     ) AS leaf
    """  # noqa: S608 - constants
)

_ROWS = text(
    """
    SELECT link.account_id, link.position, link.content, link.hash,
           row_to_json(entry)::text AS entry, row_to_json(receipt)::text AS receipt,
           hashed_end_user(receipt.account_id, receipt.end_user, salted.salt) AS end_user_hash
      FROM chain_links AS link
      LEFT JOIN credit_ledger AS entry ON entry.id = link.entry_id
      LEFT JOIN charge_receipts AS receipt ON receipt.id = entry.receipt_id
      LEFT JOIN end_user_salts AS salted
             ON salted.account_id = receipt.account_id AND salted.end_user = receipt.end_user
     WHERE link.account_id = :account_id AND link.position > :after
     ORDER BY link.position LIMIT :limit
    """
)

_UNCHAINED = text(
    """
    (SELECT 'entry ' || entry.id AS name FROM credit_ledger AS entry
      WHERE entry.account_id = :account_id
        AND NOT EXISTS (SELECT FROM chain_links AS link WHERE link.entry_id = entry.id) LIMIT :limit)
    UNION ALL
    (SELECT 'receipt ' || receipt.id FROM charge_receipts AS receipt
      WHERE receipt.account_id = :account_id
        AND NOT EXISTS (SELECT FROM credit_ledger AS entry WHERE entry.receipt_id = receipt.id) LIMIT :limit)
    UNION ALL
    (SELECT 'leaf of root ' || leaf.root_number || ', which is missing' FROM chain_leaves AS leaf
      WHERE leaf.account_id = :account_id
        AND NOT EXISTS (SELECT FROM chain_roots AS root WHERE root.number = leaf.root_number) LIMIT :limit)
    """
)


async def find_heads(reader: Reader) -> dict[UUID, ChainHead]:
    """The newest link of each account."""
    found = await reader.execute(_HEADS)
    return {row.account_id: ChainHead(row.position, bytes(row.hash)) for row in found}


async def find_held(reader: Reader, heads: Mapping[UUID, ChainHead]) -> set[UUID]:
    """The accounts whose link at this position still has this hash."""
    given = {
        "accounts": list(heads),
        "positions": [head.position for head in heads.values()],
        "hashes": [head.hash for head in heads.values()],
    }
    return set((await reader.execute(_HELD, given)).scalars())


async def lock_sealing(tx: Transaction) -> None:
    """Wait until no other process makes a root; until the end of the transaction none can."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(hashtext('runtally.chain.seal'))"))


async def find_newest_roots(reader: Reader, *, before: int | None = None, limit: int = 1) -> list[ChainRoot]:
    """The roots with the largest numbers, the largest first; those before a number."""
    statement = select(chain_roots).order_by(chain_roots.c.number.desc()).limit(limit)
    if before is not None:
        statement = statement.where(chain_roots.c.number < before)
    return [ChainRoot(**row) for row in (await reader.execute(statement)).mappings()]


async def find_newest_leaves(reader: Reader) -> dict[UUID, ChainLeaf]:
    """The entry of each account in the newest root."""
    found = (await reader.execute(_NEWEST_LEAVES)).mappings()
    return {row["account_id"]: ChainLeaf(**row) for row in found}


async def find_roots(reader: Reader, *, after: int, limit: int) -> RootPage:
    """The roots after this number, oldest first, and their leaves in the order of the tree."""
    statement = select(chain_roots).where(chain_roots.c.number > after).order_by(chain_roots.c.number)
    roots = [ChainRoot(**row) for row in (await reader.execute(statement.limit(limit))).mappings()]
    if not roots:
        return RootPage((), {})
    leaves = (
        select(chain_leaves)
        .where(_leaves.root_number > after, _leaves.root_number <= roots[-1].number)
        .order_by(_leaves.root_number, _leaves.leaf_index)
    )
    changed: dict[int, list[RootLeaf]] = {}
    for row in (await reader.execute(leaves)).mappings():
        changed.setdefault(row["root_number"], []).append(RootLeaf(**row))
    return RootPage(roots, changed)


async def insert_root(tx: Transaction, root: ChainRoot, leaves: Sequence[ChainLeaf]) -> None:
    stored = {"number": root.number, "statement": root.statement, "signature": root.signature}
    await tx.execute(insert(chain_roots).values(**stored, made_at=root.made_at))
    rows = [
        {
            "root_number": root.number,
            "account_id": leaf.account_id,
            "leaf_index": leaf.leaf_index,
            "position": leaf.position,
            "hash": leaf.hash,
        }
        for leaf in leaves
    ]
    await tx.execute(insert(chain_leaves), rows)


async def find_linked_rows(reader: Reader, account_id: UUID, *, after: int, limit: int) -> list[LinkedRow]:
    """The links of an account after this position, in order, with their rows."""
    given = {"account_id": account_id, "after": after, "limit": limit}
    found = (await reader.execute(_ROWS, given)).mappings()
    return [
        LinkedRow(
            ChainLink(row["account_id"], row["position"], row["content"], row["hash"]),
            row["entry"],
            row["receipt"],
            row["end_user_hash"],
        )
        for row in found
    ]


async def find_accounts(reader: Reader) -> list[UUID]:
    """All accounts, also those of which only a chain or a leaf is left."""
    return list((await reader.execute(_ALL_ACCOUNTS)).scalars())


async def find_unchained(reader: Reader, account_id: UUID, *, limit: int) -> list[str]:
    """Entries and receipts of an account that are in no chain, and leaves that are in no root."""
    found = await reader.execute(_UNCHAINED, {"account_id": account_id, "limit": limit})
    return list(found.scalars())


async def find_time(tx: Transaction) -> datetime:
    now: datetime = (await tx.execute(select(func.clock_timestamp()))).scalar_one()
    return now
