"""compare the costs of runs; those whose meters disagree on the cost are alarms, too."""

import sqlalchemy as sa
from alembic import op

revision: str = "3d7a60f1b9c4"
down_revision: str | None = "a3c71f5d08e2"

_DRIFTED = "(meters ->> 'drift')::int > 0 OR (cost_comparison ->> 'drift_usd')::numeric <> 0"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock.

    Their condition implies the new one, so they use the index, too.
    """
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runs",
        sa.Column("cost_comparison", sa.JSON(), nullable=True, comment="What it cost by both meters"),
    )
    op.drop_index("ix_runs_drifted", "runs")
    op.create_index(
        "ix_runs_drifted",
        "runs",
        ["account_id", sa.text("ended_at DESC"), sa.text("run_id DESC")],
        postgresql_where=sa.text(_DRIFTED),
    )
