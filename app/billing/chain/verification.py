"""verify: checks all chains in the database, that rows are what was chained, and that sums are right."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from app.billing.chain import export
from app.billing.chain.records import ChainHead, ChainRoot
from app.billing.chain.repository import find_held
from app.billing.chain.row_comparison import changed_rows
from app.billing.chain.sums.comparison import accounts_with_sums, wrong_sums
from app.billing.chain.verifier import ExportVerifier, PublicKeys, summary
from app.platform.db import Database


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found."""

    findings: tuple[str, ...]
    summary: tuple[str, ...]


async def verify(
    database: Database,
    keys: PublicKeys,
    *,
    earlier: Iterable[Iterable[Any]] = (),
    remembered: Mapping[UUID, ChainHead] | None = None,
) -> Verification:
    """Check all chains, also while servers write to them.

    Unlike a check of an export it names the columns that were changed, and what they were. `earlier`:
    records of exports; `remembered`: heads of the chains at an earlier time.
    """
    verifier = ExportVerifier(keys)
    for records in earlier:
        verifier.note(records)
    accounts = await export.all_accounts(database)
    verifier.read(export.header_record(accounts, complete=True))
    async for root, leaves in export.all_roots(database):
        verifier.read(export.root_record(root))
        for leaf in leaves:
            verifier.read(export.leaf_record(leaf))
        verifier.findings += _changed_columns(root)
    total = 0
    for account_id in accounts:
        verifier.read(export.account_record(account_id))
        async for row in export.linked_rows(database, account_id):
            total += 1
            verifier.read(export.link_record(row.link))
            verifier.findings += changed_rows(row)
        for record in await export.unchained_records(database, account_id):
            verifier.read(record)
        verifier.findings += await wrong_sums(database, account_id)
    verifier.read({"type": "end", "links": total})
    verifier.finish()
    for account_id in sorted(await accounts_with_sums(database) - set(accounts)):
        verifier.findings += await wrong_sums(database, account_id)
    verifier.findings += await _rewritten(database, remembered or {})
    return Verification(tuple(verifier.findings), tuple(summary(verifier)))


def _changed_columns(root: ChainRoot) -> Iterator[str]:
    """The columns that repeat what a statement says, and differ from it."""
    try:
        signed = json.loads(root.statement)
        stated = {"number": signed["number"], "made_at": datetime.fromisoformat(signed["made_at"])}
    except (LookupError, TypeError, ValueError):
        # Not as it was signed, which is a finding of its own.
        return
    for name, value in stated.items():
        if getattr(root, name) != value:
            yield f"root {root.number}: its column {name} is not what its statement says"


async def _rewritten(database: Database, remembered: Mapping[UUID, ChainHead]) -> list[str]:
    async with database.snapshot() as reader:
        missing = remembered.keys() - await find_held(reader, remembered)
    return [
        f"account {account}, position {remembered[account].position}: "
        "not as a server remembers it: a change at or before it, with new hashes"
        for account in sorted(missing)
    ]
