"""SQL of the evidence of runs."""

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Integer, Text

from app.ids import RunKey
from app.platform.db import Reader, Transaction, UtcDateTime
from app.runs.evidence.records import EvidenceRecord, NewEvidence
from app.runs.evidence.tables import run_evidence

_OF_RUN = (run_evidence.c.account_id, run_evidence.c.run_id)
_INSERT = text(
    """
    INSERT INTO run_evidence (account_id, run_id, position, at, type, content)
    SELECT :account_id, :run_id, new.position, new.at, new.type, new.content::json
      FROM unnest(:positions, :times, :types, :contents) AS new (position, at, type, content)
     WHERE EXISTS (SELECT FROM runs
                    WHERE account_id = :account_id AND run_id = :run_id AND ended_at IS NULL FOR SHARE)
    ON CONFLICT DO NOTHING
    """
).bindparams(
    bindparam("positions", type_=ARRAY(Integer)),
    bindparam("times", type_=ARRAY(UtcDateTime)),
    bindparam("types", type_=ARRAY(Text)),
    bindparam("contents", type_=ARRAY(Text)),
)


async def insert_evidence(tx: Transaction, key: RunKey, new: Sequence[NewEvidence]) -> None:
    """Store pieces of a run; those that are stored stay as they are.

    Nothing of a run that another process has ended: its contents may have been deleted since.
    """
    positions, times, types, contents = zip(*new, strict=True)
    values = {
        "positions": list(positions),
        "times": list(times),
        "types": list(types),
        "contents": list(contents),
    }
    await tx.execute(_INSERT, {**key._asdict(), **values})


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


async def delete_evidence(tx: Transaction, key: RunKey) -> None:
    """Delete the evidence of a run."""
    await tx.execute(delete(run_evidence).where(tuple_(*_OF_RUN) == tuple(key)))
