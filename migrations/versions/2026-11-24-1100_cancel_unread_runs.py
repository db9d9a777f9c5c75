"""cancel unread runs: those whose request says so end when their readers have left."""

import sqlalchemy as sa
from alembic import op

revision: str = "a3f8d2c61b07"
down_revision: str | None = "b52f90c7a31d"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: their runs and readers have none of it."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runs",
        sa.Column("stops_unread", sa.Boolean(), comment="Whether it is cancelled when its readers have left"),
    )
    op.create_table(
        "run_readers",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("process_id", sa.Uuid(), nullable=False, comment="Where they read"),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="Renewed while they do; not compared with a clock",
        ),
        sa.PrimaryKeyConstraint("account_id", "run_id", "process_id", name=op.f("pk_run_readers")),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            name=op.f("fk_run_readers_account_id_run_id"),
            ondelete="CASCADE",
        ),
    )
