"""Schedules and their due times."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from app.platform.db import Json, UtcDateTime, metadata

OPEN = "outcome IN ('starting', 'waiting')"
"""Of a due time for which there is something to do."""

schedules = Table(
    "schedules",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, ForeignKey("accounts.id"), nullable=False),
    Column("schedule_id", Text, nullable=False, comment="Chosen by the client"),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False, comment="Its runs use it"),
    Column("cron", Text, nullable=False),
    Column("time_zone", Text, nullable=False),
    Column("start_at", UtcDateTime),
    Column("end_at", UtcDateTime),
    Column("overlap", Text, nullable=False),
    Column("catch_up_s", Integer, nullable=False),
    Column("request", Json, nullable=False, comment="Of its runs, with files"),
    Column("graph_id", Text, nullable=False),
    Column("model", Text),
    Column("state_key", Text),
    Column("question", Text, nullable=False, comment="How the text of the last message begins"),
    Column("creation_hash", LargeBinary, nullable=False, comment="Of the request that created it"),
    Column("paused_reason", Text),
    Column("paused_at", UtcDateTime),
    Column("next_at", UtcDateTime, comment="Null while it is paused and after its last due time"),
    Column("aligned_at", UtcDateTime, nullable=False, comment="When next_at was computed"),
    Column("last_at", UtcDateTime, comment="The latest due time"),
    Column("refusals", Integer, nullable=False, server_default="0", comment="In a row"),
    Column("created_at", UtcDateTime, nullable=False),
    Column(
        "deployment", Json(none_as_null=True), comment="Of Managed Agents: each of its runs begins a session"
    ),
    # Of no use any more, as `deleted_schedules`: releases before may run beside this one.
    Column("revision", Integer, nullable=False, server_default="1", comment="Of what Temporal gets"),
    Column(
        "mirrored_revision",
        Integer,
        nullable=False,
        server_default="0",
        comment="The latest that Temporal got; 0: none, -1: not known",
    ),
    Column("bytes", BigInteger, Computed("octet_length(request::text)")),
    UniqueConstraint("account_id", "schedule_id", name="uq_schedules_schedule_id"),
    CheckConstraint("overlap IN ('skip', 'queue', 'cancel', 'allow')", name="overlap"),
    CheckConstraint("paused_reason IN ('by_request', 'key_revoked', 'failing')", name="paused_reason"),
    CheckConstraint("(paused_reason IS NULL) = (paused_at IS NULL)", name="paused"),
    CheckConstraint("paused_reason IS NULL OR next_at IS NULL", name="paused_is_not_due"),
)

Index("ix_schedules_next_at", schedules.c.next_at, postgresql_where=text("next_at IS NOT NULL"))
Index("ix_schedules_aligned_at", schedules.c.aligned_at, postgresql_where=text("next_at IS NOT NULL"))
Index(
    "ix_schedules_newest",
    schedules.c.account_id,
    schedules.c.created_at.desc(),
    schedules.c.schedule_id.desc(),
)

Index("ix_schedules_unmirrored", schedules.c.id, postgresql_where=text("revision <> mirrored_revision"))

deleted_schedules = Table(
    "deleted_schedules",
    metadata,
    Column("id", Uuid, primary_key=True, comment="Temporal still has it"),
)

schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("schedule", Uuid, ForeignKey("schedules.id", ondelete="CASCADE"), primary_key=True),
    Column("due_at", UtcDateTime, primary_key=True),
    Column("trigger", Text, nullable=False),
    Column("run_id", Text, nullable=False, comment="Of its run, if there is one"),
    Column("outcome", Text, nullable=False),
    Column("error", Text, comment="The code of the last refusal"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("next_attempt_at", UtcDateTime, nullable=False, comment="While one is under way: when it is lost"),
    Column("start_by", UtcDateTime, nullable=False, comment="Later no run is started"),
    Column("started_at", UtcDateTime),
    Column("waits_for", Text, comment="A run that has not ended, or is being started"),
    CheckConstraint("trigger IN ('cron', 'request')", name="trigger"),
    CheckConstraint(
        "outcome IN ('starting', 'waiting', 'started', 'skipped', 'missed', 'refused')", name="outcome"
    ),
    CheckConstraint("outcome <> 'started' OR started_at IS NOT NULL", name="started"),
)

Index("ix_schedule_runs_open", schedule_runs.c.schedule, postgresql_where=text(OPEN))
Index("ix_schedule_runs_due_at", schedule_runs.c.due_at)
