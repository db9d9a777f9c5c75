"""The evidence of runs."""

import sqlalchemy as sa

from app.platform.db import Json, UtcDateTime, metadata

run_evidence = sa.Table(
    "run_evidence",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column(
        "position", sa.Integer, primary_key=True, comment="Of a later attempt: from a multiple of a million"
    ),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("content", Json, nullable=False),
    sa.Column("bytes", sa.BigInteger, sa.Computed("octet_length(content::text)")),
    sa.ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

FIRST_PIECES: sa.ColumnElement[bool] = sa.literal_column("run_evidence.position % 1000000 = 1")
"""One of each attempt that has any."""

sa.Index(
    "ix_run_evidence_first",
    run_evidence.c.account_id,
    run_evidence.c.at,
    postgresql_where=sa.text("position % 1000000 = 1"),
)
