"""SQL of the evidence of runs."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select, tuple_

from app.ids import RunKey
from app.platform.db import Reader, Transaction
from app.platform.postgres.prepared import Prepared
from app.runs.evidence.records import EvidenceRecord, NewEvidence
from app.runs.evidence.tables import run_evidence

_OF_RUN = (run_evidence.c.account_id, run_evidence.c.run_id)
NEW_EVIDENCE = """
    (SELECT position, at, type, CAST(content AS json)
       FROM unnest(CAST(:places AS int[]), CAST(:moments AS timestamptz[]), CAST(:types AS text[]),
                   CAST(:contents AS text[])) AS given (position, at, type, content)) AS new
"""
"""Rows of pieces: `evidence_values` are its parameters."""

_INSERT = Prepared(
    f"""
    INSERT INTO run_evidence (account_id, run_id, position, at, type, content)
    SELECT run.account_id, run.run_id, new.*
      FROM (SELECT account_id, run_id FROM runs
             WHERE account_id = CAST(:account_id AS uuid) AND run_id = CAST(:run_id AS text)
               AND ended_at IS NULL FOR SHARE) AS run, {NEW_EVIDENCE}
    ON CONFLICT DO NOTHING RETURNING position
    """  # noqa: S608 - a constant
)


def evidence_values(new: Sequence[NewEvidence]) -> dict[str, list[Any]]:
    """The parameters of `NEW_EVIDENCE`."""
    columns = zip(*new, strict=True) if new else ((), (), (), ())
    return dict(zip(("places", "moments", "types", "contents"), map(list, columns), strict=True))


async def insert_evidence(tx: Transaction, key: RunKey, new: Sequence[NewEvidence]) -> None:
    """Store pieces of a run; those that are stored stay as they are.

    Nothing of a run that another process has ended: its contents may have been deleted since.
    """
    await _INSERT.fetch(tx, {**key._asdict(), **evidence_values(new)})


async def find_evidence(reader: Reader, key: RunKey, *, after: int, limit: int) -> list[EvidenceRecord]:
    """The pieces after this position, in order."""
    columns = run_evidence.c
    statement = (
        select(columns.position, columns.at, columns.type, columns.content)
        .where(tuple_(*_OF_RUN) == tuple(key), columns.position > after)
        .order_by(columns.position)
        .limit(limit)
    )
    rows = await reader.execute(statement)
    return [EvidenceRecord(row.position, row.at, row.type, row.content) for row in rows]


async def delete_evidence(tx: Transaction, keys: Sequence[RunKey]) -> None:
    await tx.execute(delete(run_evidence).where(tuple_(*_OF_RUN).in_(keys)))
