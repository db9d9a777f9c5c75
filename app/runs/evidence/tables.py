"""The evidence of runs."""

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Computed,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    literal_column,
    text,
)

from app.platform.db import Json, UtcDateTime, metadata

run_evidence = Table(
    "run_evidence",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("position", Integer, primary_key=True, comment="Of a later attempt: from a multiple of a million"),
    Column("at", UtcDateTime, nullable=False),
    Column("type", Text, nullable=False),
    Column("content", Json, nullable=False),
    Column("bytes", BigInteger, Computed("octet_length(content::text)")),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

FIRST_PIECES: ColumnElement[bool] = literal_column("run_evidence.position % 1000000 = 1")
"""One of each attempt that has any."""

Index(
    "ix_run_evidence_first",
    run_evidence.c.account_id,
    run_evidence.c.at,
    postgresql_where=text("position % 1000000 = 1"),
)
