"""keep evidence of runs, for operators."""

import sqlalchemy as sa
from alembic import op

revision: str = "e63a9d0b41c8"
down_revision: str | None = "e19c5b7a03d4"
compatibility: str = "expand"

# The function names no table: it sums `bytes` of rows by their accounts.
_TRIGGER = """
CREATE TRIGGER storage_follows_{operation}
AFTER {operation} ON run_evidence REFERENCING {names}
FOR EACH STATEMENT EXECUTE FUNCTION storage_follows_batch_items()
"""
_ROWS = {
    "INSERT": "NEW TABLE AS added",
    "UPDATE": "OLD TABLE AS removed NEW TABLE AS added",
    "DELETE": "OLD TABLE AS removed",
}


def upgrade() -> None:
    """Apply while older servers may still run: they do not use the table."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "run_evidence",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column(
            "position",
            sa.Integer(),
            nullable=False,
            comment="Of a later attempt: from a multiple of a million",
        ),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), sa.Computed("octet_length(content::text)", persisted=True)),
        sa.PrimaryKeyConstraint("account_id", "run_id", "position", name=op.f("pk_run_evidence")),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            ondelete="CASCADE",
            name=op.f("fk_run_evidence_account_id_run_id"),
        ),
    )
    for operation, names in _ROWS.items():
        op.execute(_TRIGGER.format(operation=operation, names=names))
