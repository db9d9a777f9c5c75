"""ChainSealer: makes signed roots, and watches that chains only grow."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal
from uuid import UUID

import structlog

from app.billing.chain import repository
from app.billing.chain.head_witness import HeadWitness
from app.billing.chain.records import ChainHead, ChainLeaf, ChainRoot
from app.billing.chain.sealing_key import SealingKey
from app.billing.chain.verifier import NO_ROOT, ROOT_FORMAT, AccountTree, leaf_hash
from app.platform.background import AFTER_START_S, forever
from app.platform.db import Database, Reader, Transaction

log = structlog.get_logger(__name__)

WATCH_S = 60.0
"""How long an entry may be in the database before this process remembers its hash."""


@dataclass(frozen=True, slots=True)
class SealStatus:
    """How far the chains are sealed."""

    newest: ChainRoot | None
    unsealed: int
    """Entries that no root covers."""


class ChainSealer:
    """Signs a root of all chains from time to time, if it has a key.

    It remembers the newest hash of each chain, also across restarts: a chain that is rewritten between
    two roots no longer contains it.
    """

    def __init__(
        self, database: Database, key: SealingKey | None, *, every: timedelta, witness: HeadWitness
    ) -> None:
        self._database = database
        self._key = key
        self._every = every
        self._witness = witness
        self._rewritten: set[UUID] = set()

    @property
    def state(self) -> Literal["signed", "unsigned", "rewritten"]:
        """Whether roots are signed, and the chains contain what is remembered of them."""
        if self._rewritten:
            return "rewritten"
        return "unsigned" if self._key is None else "signed"

    @property
    def public_keys(self) -> Mapping[str, str]:
        """The public keys of all roots, PEM by id, the newest first."""
        return {} if self._key is None else self._key.public_pems

    async def may_sign(self) -> bool:
        """Whether this process signs what the deployment signs: no other has the key that it lacks."""
        if self._key is not None:
            return True
        async with self._database.snapshot() as reader:
            return await _newest_root(reader) is None

    def sign(self, content: str) -> tuple[str | None, bytes | None]:
        """The id of the key and the signature of a text; None without a key."""
        return (None, None) if self._key is None else (self._key.id, self._key.sign(content))

    async def work(self) -> None:
        """Watch and seal until cancelled."""
        if self._key is None:
            log.warning("chain.without_key")
        await forever(self.step, WATCH_S, name="chain.seal", first_after_s=AFTER_START_S)

    async def step(self) -> ChainRoot | None:
        """Watch once, and make a root if the newest one is old enough."""
        await self.watch()
        return await self.seal(only_due=True)

    async def watch(self) -> set[UUID]:
        """Compare the chains with those remembered, and remember them; returns what was rewritten."""
        known = self._witness.heads
        async with self._database.snapshot() as reader:
            heads = await repository.find_heads(reader)
            rewritten = await _not_held(reader, known)
        _log_rewritten(rewritten, known)
        # What was rewritten stays remembered as it was, so that the alarm stays.
        self._witness.remember({**heads, **{account: known[account] for account in rewritten}})
        self._rewritten = rewritten
        return rewritten

    async def seal(self, *, only_due: bool = False) -> ChainRoot | None:
        """Make a root; None without a key, or if nothing has changed since the newest one."""
        if self._key is None:
            return None
        async with self._database.transaction() as tx:
            await repository.lock_sealing(tx)
            newest, now = await _newest_root(tx), await repository.find_time(tx)
            # A root of the future is from a clock that was wrong.
            if only_due and newest is not None and timedelta(0) <= now - newest.made_at < self._every:
                return None
            root = await self._make(tx, self._key, newest, now=now)
        if root is not None:
            log.info("chain.sealed", number=root.number, hash=root_hash(root.statement), key=self._key.id)
        return root

    async def _make(
        self, tx: Transaction, key: SealingKey, newest: ChainRoot | None, *, now: datetime
    ) -> ChainRoot | None:
        sealed = await repository.find_newest_leaves(tx)
        heads = await repository.find_heads(tx)
        signed = {account: ChainHead(leaf.position, leaf.hash) for account, leaf in sealed.items()}
        # A root never covers what contradicts an earlier one, or what this process remembers.
        kept = await _not_held(tx, signed)
        for account_id in sorted(kept):
            position = signed[account_id].position
            log.critical("chain.contradicts_root", account_id=str(account_id), position=position)
        kept |= await _not_held(tx, self._witness.heads)
        changed = _changed_leaves(sealed, {a: head for a, head in heads.items() if a not in kept})
        if not changed:
            return None
        leaves = {**sealed, **{leaf.account_id: leaf for leaf in changed}}
        # In a thread: with many accounts the tree takes longer than the event loop may wait.
        statement = await asyncio.to_thread(_statement, newest, leaves, key=key.id, made_at=now)
        number = 1 if newest is None else newest.number + 1
        root = ChainRoot(number, statement, key.sign(statement), now)
        await repository.insert_root(tx, root, changed)
        return root


async def seal_status(database: Database) -> SealStatus:
    async with database.snapshot() as reader:
        newest, sealed = await _newest_root(reader), await repository.find_newest_leaves(reader)
        heads = await repository.find_heads(reader)
    covered = {account: leaf.position for account, leaf in sealed.items()}
    unsealed = sum(max(0, head.position - covered.get(account, 0)) for account, head in heads.items())
    return SealStatus(newest, unsealed)


def root_hash(statement: str) -> str:
    return sha256(statement.encode()).hexdigest()


async def _newest_root(reader: Reader) -> ChainRoot | None:
    return next(iter(await repository.find_newest_roots(reader)), None)


async def _not_held(reader: Reader, heads: Mapping[UUID, ChainHead]) -> set[UUID]:
    """The accounts whose chain no longer contains this link."""
    return set(heads.keys() - await repository.find_held(reader, heads))


def _log_rewritten(accounts: set[UUID], known: Mapping[UUID, ChainHead]) -> None:
    for account_id in sorted(accounts):
        log.critical("chain.rewritten", account_id=str(account_id), position=known[account_id].position)


def _changed_leaves(sealed: Mapping[UUID, ChainLeaf], heads: Mapping[UUID, ChainHead]) -> list[ChainLeaf]:
    """The leaves that are not those of the newest root; new accounts come last in the tree."""
    known = [
        ChainLeaf(account, sealed[account].leaf_index, head.position, head.hash)
        for account, head in heads.items()
        if account in sealed and sealed[account].hash != head.hash
    ]
    new = sorted(heads.keys() - sealed.keys())
    return [
        *known,
        *(
            ChainLeaf(account, len(sealed) + index, heads[account].position, heads[account].hash)
            for index, account in enumerate(new)
        ),
    ]


def _statement(
    newest: ChainRoot | None, leaves: Mapping[UUID, ChainLeaf], *, key: str, made_at: datetime
) -> str:
    tree = AccountTree()
    for leaf in sorted(leaves.values(), key=lambda leaf: leaf.leaf_index):
        tree.put(leaf.leaf_index, leaf_hash(str(leaf.account_id), leaf.position, leaf.hash))
    return json.dumps(
        {
            "format": ROOT_FORMAT,
            "number": 1 if newest is None else newest.number + 1,
            "previous": NO_ROOT if newest is None else root_hash(newest.statement),
            "made_at": made_at.astimezone(UTC).isoformat(timespec="microseconds"),
            "accounts": len(tree),
            "links": sum(leaf.position for leaf in leaves.values()),
            "tree": tree.root.hex(),
            "key": key,
        }
    )
