"""create batches; find the latest runs of a graph."""

import sqlalchemy as sa
from alembic import op

revision: str = "b47d0c9e51fa"
down_revision: str | None = "7c19e4a6b0d3"
compatibility: str = "expand"

_MOMENT = sa.DateTime(timezone=True)
_DOLLARS = sa.Numeric(20, 10)

# Their requests count as those of runs do.
_FOLLOW = """
CREATE FUNCTION storage_follows_batch_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, -sum(bytes) FROM removed GROUP BY 1 HAVING sum(bytes) <> 0;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, sum(bytes) FROM added GROUP BY 1 HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$$
"""
_TRIGGER = """
CREATE TRIGGER storage_follows_{operation}
AFTER {operation} ON batch_items REFERENCING {names}
FOR EACH STATEMENT EXECUTE FUNCTION storage_follows_batch_items()
"""
_ROWS = {
    "INSERT": "NEW TABLE AS added",
    "UPDATE": "OLD TABLE AS removed NEW TABLE AS added",
    "DELETE": "OLD TABLE AS removed",
}


def upgrade() -> None:
    """Apply while older servers may still run: they do not use the tables."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    _create_batches()
    _create_batch_items()
    op.execute(_FOLLOW)
    for operation, names in _ROWS.items():
        op.execute(_TRIGGER.format(operation=operation, names=names))
    op.create_index(
        "ix_runs_answered",
        "runs",
        ["account_id", "graph_id", sa.text("ended_at DESC")],
        postgresql_where=sa.text("status = 'succeeded'"),
    )


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, server_default="0")


def _create_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False, comment="Its runs use it"),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False, comment="Of the request that created it"),
        sa.Column("parallelism", sa.Integer(), nullable=False),
        sa.Column("max_usd", _DOLLARS),
        sa.Column("items", sa.Integer(), nullable=False),
        *map(_count, ("pending", "succeeded", "failed", "cancelled", "refused")),
        sa.Column("cost_usd", _DOLLARS, nullable=False, server_default="0", comment="Of the counted items"),
        sa.Column("stop_reason", sa.Text(), comment="Why no further item is started"),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("ended_at", _MOMENT),
        sa.Column(
            "step", sa.BigInteger(), nullable=False, server_default="0", comment="How often it was claimed"
        ),
        sa.Column("step_at", _MOMENT, nullable=False, comment="When a process may claim it"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_batches_account_id")),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"], name=op.f("fk_batches_api_key_id")),
    )
    op.create_index(
        "ix_batches_newest", "batches", ["account_id", sa.text("created_at DESC"), sa.text("id DESC")]
    )
    op.create_index(
        "ix_batches_step_at", "batches", ["step_at"], postgresql_where=sa.text("ended_at IS NULL")
    )
    op.create_index(
        "ix_batches_ended_at", "batches", ["ended_at"], postgresql_where=sa.text("ended_at IS NOT NULL")
    )


def _create_batch_items() -> None:
    op.create_table(
        "batch_items",
        sa.Column("batch", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="Its line, from 1"),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("custom_id", sa.Text(), nullable=False, comment="Chosen by the client"),
        sa.Column("run_id", sa.Text(), nullable=False, comment="Of its run, if there is one"),
        sa.Column("request", sa.JSON(), comment="With files; null once it needs no start"),
        sa.Column("reserve_usd", _DOLLARS, nullable=False, comment="What its run may be expected to cost"),
        sa.Column("status", sa.Text(), nullable=False, server_default="pending"),
        sa.Column("error", sa.Text(), comment="The code of the error with which its run was refused"),
        sa.Column(
            "bytes",
            sa.BigInteger(),
            sa.Computed("coalesce(octet_length(request::text), 0)", persisted=True),
        ),
        sa.PrimaryKeyConstraint("batch", "position", name=op.f("pk_batch_items")),
        sa.ForeignKeyConstraint(
            ["batch"], ["batches.id"], ondelete="CASCADE", name=op.f("fk_batch_items_batch")
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'started', 'succeeded', 'failed', 'cancelled', 'refused')",
            name=op.f("ck_batch_items_status"),
        ),
    )
    op.create_index(
        "ix_batch_items_pending",
        "batch_items",
        ["batch", "position"],
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_batch_items_started", "batch_items", ["batch"], postgresql_where=sa.text("status = 'started'")
    )
