"""Batches and their items."""

import sqlalchemy as sa

from app.platform.db import Json, UtcDateTime, metadata


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default="0")


batches = sa.Table(
    "batches",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("api_key_id", sa.Uuid, sa.ForeignKey("api_keys.id"), nullable=False, comment="Its runs use it"),
    sa.Column("graph_id", sa.Text, nullable=False),
    sa.Column("request_hash", sa.LargeBinary, nullable=False, comment="Of the request that created it"),
    sa.Column("parallelism", sa.Integer, nullable=False),
    sa.Column("max_usd", sa.Numeric(20, 10)),
    sa.Column("items", sa.Integer, nullable=False),
    *map(_count, ("pending", "succeeded", "failed", "cancelled", "refused")),
    sa.Column(
        "cost_usd", sa.Numeric(20, 10), nullable=False, server_default="0", comment="Of the counted items"
    ),
    sa.Column("stop_reason", sa.Text, comment="Why no further item is started"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("step", sa.BigInteger, nullable=False, server_default="0", comment="How often it was claimed"),
    sa.Column("step_at", UtcDateTime, nullable=False, comment="When a process may claim it"),
)

sa.Index("ix_batches_newest", batches.c.account_id, batches.c.created_at.desc(), batches.c.id.desc())
sa.Index("ix_batches_step_at", batches.c.step_at, postgresql_where=sa.text("ended_at IS NULL"))
sa.Index("ix_batches_ended_at", batches.c.ended_at, postgresql_where=sa.text("ended_at IS NOT NULL"))

batch_items = sa.Table(
    "batch_items",
    metadata,
    sa.Column("batch", sa.Uuid, sa.ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, comment="Its line, from 1"),
    sa.Column("account_id", sa.Uuid, nullable=False),
    sa.Column("custom_id", sa.Text, nullable=False, comment="Chosen by the client"),
    sa.Column("run_id", sa.Text, nullable=False, comment="Of its run, if there is one"),
    sa.Column("request", Json(none_as_null=True), comment="With files; null once it needs no start"),
    sa.Column(
        "reserve_usd", sa.Numeric(20, 10), nullable=False, comment="What its run may be expected to cost"
    ),
    sa.Column("status", sa.Text, nullable=False, server_default="pending"),
    sa.Column("error", sa.Text, comment="The code of the error with which its run was refused"),
    sa.Column("bytes", sa.BigInteger, sa.Computed("coalesce(octet_length(request::text), 0)")),
    sa.CheckConstraint(
        "status IN ('pending', 'started', 'succeeded', 'failed', 'cancelled', 'refused')", name="status"
    ),
)

sa.Index(
    "ix_batch_items_pending",
    batch_items.c.batch,
    batch_items.c.position,
    postgresql_where=sa.text("status = 'pending'"),
)
sa.Index("ix_batch_items_started", batch_items.c.batch, postgresql_where=sa.text("status = 'started'"))
