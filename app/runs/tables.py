"""Runs and the events of finished runs."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    text,
)

from app.db import Json, UtcDateTime, metadata

runs = Table(
    "runs",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False),
    Column("graph_id", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("request", Json(none_as_null=True), comment="Null once it is deleted"),
    Column("question", Text, comment="How the text of its last message begins"),
    Column("request_hash", LargeBinary, nullable=False),
    Column("request_id", Text),
    Column("state_key", Text, comment="The conversation it belongs to"),
    Column("turn", Integer, comment="Its place in that conversation"),
    Column("interruption", Json(none_as_null=True), comment="How far a wish to stop it has come"),
    Column("final", Json(none_as_null=True)),
    Column("meters", Json(none_as_null=True), comment="What the two meters saw"),
    Column("cost_comparison", Json(none_as_null=True), comment="What it cost by both meters"),
    Column("tool_failures", Integer, comment="How many tool calls failed"),
    Column("process_id", Uuid, nullable=False, comment="The server process that carries it"),
    Column("heartbeat_at", UtcDateTime, nullable=False, comment="When that process last beat"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("contents_deleted_at", UtcDateTime),
    Column(
        "bytes",
        BigInteger,
        Computed("coalesce(octet_length(request::text), 0) + coalesce(octet_length(final::text), 0)"),
    ),
    CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="status"),
)

Index("ix_runs_newest", runs.c.account_id, runs.c.created_at.desc(), runs.c.run_id.desc())
Index(
    "ix_runs_unfinished",
    runs.c.process_id,
    postgresql_where=text("status IN ('queued', 'running')"),
)

Index(
    "ix_runs_with_contents",
    runs.c.ended_at,
    postgresql_where=text("contents_deleted_at IS NULL"),
)

DRIFTED = "(meters ->> 'drift')::int > 0 OR (cost_comparison ->> 'drift_usd')::numeric <> 0"
"""Whether the meters of a run disagree, on messages or on the cost."""

Index(
    "ix_runs_drifted",
    runs.c.account_id,
    runs.c.ended_at.desc(),
    runs.c.run_id.desc(),
    postgresql_where=text(DRIFTED),
)

Index(
    "ix_runs_turns",
    runs.c.account_id,
    runs.c.state_key,
    runs.c.turn,
    postgresql_where=text("state_key IS NOT NULL"),
)

run_takeovers = Table(
    "run_takeovers",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True, comment="The attempt that was taken over"),
    Column("at", UtcDateTime, nullable=False, server_default=text("now()")),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

run_events = Table(
    "run_events",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("last_position", Integer, nullable=False),
    Column("data", Json, nullable=False),
    Column("bytes", BigInteger, Computed("octet_length(data::text)")),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)
