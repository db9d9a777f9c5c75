"""SQL for messages in progress."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Text, cast, select, text, tuple_

from app.billing.receipts.journal_records import encode_fact
from app.billing.receipts.open_messages.records import OpenMessage, StoredMessage
from app.billing.receipts.open_messages.tables import open_messages
from app.ids import RunKey
from app.platform.db import Reader, Transaction
from app.usage.records import SOURCE_SYSTEM, parse_key

_open = open_messages.c


def locking_open_messages(accounts: str, references: str) -> str:
    """SQL of the keys of these messages that have rows, which it locks in the order of all who do.

    The limit is how many are named: with it PostgreSQL expects one instead of ten, and looks each up.
    """
    return f"""
        SELECT account_id, source_reference
          FROM open_messages
          JOIN (SELECT * FROM unnest({accounts}, {references}) LIMIT cardinality({accounts}))
               AS named (account_id, source_reference)
         USING (account_id, source_reference)
         ORDER BY account_id, source_reference FOR UPDATE OF open_messages
    """  # noqa: S608 - parameters


_REMOVED = locking_open_messages("CAST(:removed_accounts AS uuid[])", "CAST(:removed_references AS text[])")
_WRITE = text(
    f"""
    WITH removed AS (
        DELETE FROM open_messages WHERE (account_id, source_reference) IN ({_REMOVED})
        RETURNING account_id, source_reference
    ), written AS (
        INSERT INTO open_messages
               (account_id, source_reference, run_id, attempt, fact, is_complete, updated_at)
        SELECT account_id, source_reference, run_id, attempt, CAST(fact AS json), is_complete,
               clock_timestamp()
          FROM unnest(CAST(:accounts AS uuid[]), CAST(:references AS text[]), CAST(:runs AS text[]),
                      CAST(:attempts AS int[]), CAST(:facts AS text[]), CAST(:are_complete AS bool[]))
               AS new (account_id, source_reference, run_id, attempt, fact, is_complete)
         -- LIMIT keeps it from becoming a join, which may read all receipts: here each is looked up.
         WHERE (SELECT receipt.id FROM charge_receipts AS receipt
                 WHERE receipt.account_id = new.account_id AND receipt.source_system = :source_system
                   AND receipt.source_reference = new.source_reference LIMIT 1) IS NULL
         ORDER BY account_id, source_reference
        ON CONFLICT (account_id, source_reference)
        DO UPDATE SET fact = excluded.fact, is_complete = excluded.is_complete,
                      updated_at = excluded.updated_at
    )
    SELECT account_id, source_reference FROM removed
    """  # noqa: S608 - parameters
)
"""A message whose receipt is stored is not in progress; a process that stood still may try to write it."""

_ABANDONED = text(
    """
    SELECT source_reference, CAST(fact AS text) AS fact, is_complete
      FROM open_messages AS open
     -- The later times were stored before the database's clock went back.
     WHERE (updated_at < clock_timestamp() - make_interval(secs => :age_s)
            OR updated_at > clock_timestamp() + make_interval(secs => :age_s))
       AND NOT EXISTS (
        SELECT FROM runs
         WHERE runs.account_id = open.account_id AND runs.run_id = open.run_id
           AND runs.attempt <= open.attempt AND runs.status IN ('queued', 'running')
     )
     ORDER BY updated_at
     LIMIT :limit
    """
)


async def write_open_messages(
    tx: Transaction, messages: Sequence[OpenMessage], *, removed: Collection[str] = ()
) -> set[str]:
    """Insert or update the rows of these messages, and remove others by their keys, in one statement.

    Returns the keys whose rows were there and are removed.
    """
    facts = [message.fact for message in messages]
    gone = [parse_key(key) for key in removed]
    values: dict[str, Any] = {
        "accounts": [fact.run.account_id for fact in facts],
        "references": [fact.source_reference for fact in facts],
        "runs": [fact.run.run_id for fact in facts],
        "attempts": [fact.attempt for fact in facts],
        "facts": [encode_fact(fact).decode() for fact in facts],
        "are_complete": [message.is_complete for message in messages],
        "removed_accounts": [account_id for account_id, _ in gone],
        "removed_references": [source_reference for _, source_reference in gone],
        "source_system": SOURCE_SYSTEM,
    }
    found = await tx.execute(_WRITE, values)
    return {f"{row.account_id}/{row.source_reference}" for row in found}


async def lock_open_messages(tx: Transaction, keys: Collection[str]) -> set[str]:
    """Lock the rows of messages until the transaction ends; returns the keys of those that are there."""
    statement = (
        select(_open.account_id, _open.source_reference)
        .where(tuple_(_open.account_id, _open.source_reference).in_([parse_key(key) for key in keys]))
        .order_by(_open.account_id, _open.source_reference)
        .with_for_update()
    )
    return {f"{row.account_id}/{row.source_reference}" for row in await tx.execute(statement)}


async def find_open_messages(reader: Reader, run: RunKey, *, attempt: int) -> list[StoredMessage]:
    """The messages of a run that were begun by this attempt or an earlier one."""
    columns = (_open.source_reference, cast(_open.fact, Text).label("fact"), _open.is_complete)
    statement = select(*columns).where(
        _open.account_id == run.account_id, _open.run_id == run.run_id, _open.attempt <= attempt
    )
    return [StoredMessage(**row) for row in (await reader.execute(statement)).mappings()]


async def find_abandoned_messages(reader: Reader, *, age_s: float, limit: int) -> list[StoredMessage]:
    """Messages of all accounts whose run has ended or is at a later attempt, the oldest first.

    Only those that were not written for `age_s`: at the end of a run its receipts are being stored.
    """
    found = await reader.execute(_ABANDONED, {"age_s": age_s, "limit": limit})
    return [StoredMessage(**row) for row in found.mappings()]
