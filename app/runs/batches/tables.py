"""Batches and their items."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    Uuid,
    text,
)

from app.platform.db import Json, UtcDateTime, metadata


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default="0")


batches = Table(
    "batches",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, ForeignKey("accounts.id"), nullable=False),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False, comment="Its runs use it"),
    Column("graph_id", Text, nullable=False),
    Column("request_hash", LargeBinary, nullable=False, comment="Of the request that created it"),
    Column("parallelism", Integer, nullable=False),
    Column("max_usd", Numeric(20, 10)),
    Column("items", Integer, nullable=False),
    *map(_count, ("pending", "succeeded", "failed", "cancelled", "refused")),
    Column("cost_usd", Numeric(20, 10), nullable=False, server_default="0", comment="Of the counted items"),
    Column("stop_reason", Text, comment="Why no further item is started"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("step", BigInteger, nullable=False, server_default="0", comment="How often it was claimed"),
    Column("step_at", UtcDateTime, nullable=False, comment="When a process may claim it"),
)

Index("ix_batches_newest", batches.c.account_id, batches.c.created_at.desc(), batches.c.id.desc())
Index("ix_batches_step_at", batches.c.step_at, postgresql_where=text("ended_at IS NULL"))
Index("ix_batches_ended_at", batches.c.ended_at, postgresql_where=text("ended_at IS NOT NULL"))

batch_items = Table(
    "batch_items",
    metadata,
    Column("batch", Uuid, ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, comment="Its line, from 1"),
    Column("account_id", Uuid, nullable=False),
    Column("custom_id", Text, nullable=False, comment="Chosen by the client"),
    Column("run_id", Text, nullable=False, comment="Of its run, if there is one"),
    Column("request", Json(none_as_null=True), comment="With files; null once it needs no start"),
    Column("reserve_usd", Numeric(20, 10), nullable=False, comment="What its run may be expected to cost"),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("error", Text, comment="The code of the error with which its run was refused"),
    Column("bytes", BigInteger, Computed("coalesce(octet_length(request::text), 0)")),
    CheckConstraint(
        "status IN ('pending', 'started', 'succeeded', 'failed', 'cancelled', 'refused')", name="status"
    ),
)

Index(
    "ix_batch_items_pending",
    batch_items.c.batch,
    batch_items.c.position,
    postgresql_where=text("status = 'pending'"),
)
Index("ix_batch_items_started", batch_items.c.batch, postgresql_where=text("status = 'started'"))
