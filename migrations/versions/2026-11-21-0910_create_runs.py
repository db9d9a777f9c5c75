"""create runs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "2f6b9c47d512"
down_revision: str | None = "8d1c5a3e0b71"

_STATUSES = "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "runs",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("request", postgresql.JSON(), nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("final", postgresql.JSON(none_as_null=True), nullable=True),
        sa.Column(
            "process_id",
            sa.Uuid(),
            nullable=False,
            comment="The server process that carries it",
        ),
        sa.Column(
            "heartbeat_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When that process last beat",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(_STATUSES, name=op.f("ck_runs_status")),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_runs_account_id")),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"], name=op.f("fk_runs_api_key_id")),
        sa.PrimaryKeyConstraint("account_id", "run_id", name=op.f("pk_runs")),
    )
    op.create_index(
        "ix_runs_newest",
        "runs",
        ["account_id", sa.literal_column("created_at DESC"), sa.literal_column("run_id DESC")],
    )
    op.create_index(
        "ix_runs_unfinished",
        "runs",
        ["process_id"],
        postgresql_where=sa.text("status IN ('queued', 'running')"),
    )
    op.create_table(
        "run_events",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("last_position", sa.Integer(), nullable=False),
        sa.Column("data", postgresql.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            name=op.f("fk_run_events_account_id_run_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "run_id", "position", name=op.f("pk_run_events")),
    )
