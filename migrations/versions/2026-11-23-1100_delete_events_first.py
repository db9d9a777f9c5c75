"""delete the events of runs before their other contents."""

import sqlalchemy as sa
from alembic import op

revision: str = "5e0b94c7d2f3"
down_revision: str | None = "6b1d84f0a7c3"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("runs", sa.Column("events_deleted_at", sa.DateTime(timezone=True)))
    op.execute(
        "UPDATE runs SET events_deleted_at = contents_deleted_at WHERE contents_deleted_at IS NOT NULL"
    )
    # Only what is left to do: a sweep does not read the runs of earlier ones.
    op.create_index(
        "ix_runs_with_events",
        "runs",
        ["ended_at"],
        postgresql_where=sa.text("events_deleted_at IS NULL AND ended_at IS NOT NULL"),
    )
