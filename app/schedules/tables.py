"""Schedules and their due times."""

import sqlalchemy as sa

from app.platform.db import Json, UtcDateTime, metadata

OPEN = "outcome IN ('starting', 'waiting')"
"""Of a due time for which there is something to do."""

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("schedule_id", sa.Text, nullable=False, comment="Chosen by the client"),
    sa.Column("api_key_id", sa.Uuid, sa.ForeignKey("api_keys.id"), nullable=False, comment="Its runs use it"),
    sa.Column("cron", sa.Text, nullable=False),
    sa.Column("time_zone", sa.Text, nullable=False),
    sa.Column("start_at", UtcDateTime),
    sa.Column("end_at", UtcDateTime),
    sa.Column("overlap", sa.Text, nullable=False),
    sa.Column("catch_up_s", sa.Integer, nullable=False),
    sa.Column("request", Json, nullable=False, comment="Of its runs, with files"),
    sa.Column("graph_id", sa.Text, nullable=False),
    sa.Column("model", sa.Text),
    sa.Column("state_key", sa.Text),
    sa.Column("question", sa.Text, nullable=False, comment="How the text of the last message begins"),
    sa.Column("creation_hash", sa.LargeBinary, nullable=False, comment="Of the request that created it"),
    sa.Column("paused_reason", sa.Text),
    sa.Column("paused_at", UtcDateTime),
    sa.Column("next_at", UtcDateTime, comment="Null while it is paused and after its last due time"),
    sa.Column("aligned_at", UtcDateTime, nullable=False, comment="When next_at was computed"),
    sa.Column("last_at", UtcDateTime, comment="The latest due time"),
    sa.Column("refusals", sa.Integer, nullable=False, server_default="0", comment="In a row"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column(
        "deployment", Json(none_as_null=True), comment="Of Managed Agents: each of its runs begins a session"
    ),
    # Of no use any more, as `deleted_schedules`: releases before may run beside this one.
    sa.Column("revision", sa.Integer, nullable=False, server_default="1", comment="Of what Temporal gets"),
    sa.Column(
        "mirrored_revision",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="The latest that Temporal got; 0: none, -1: not known",
    ),
    sa.Column("bytes", sa.BigInteger, sa.Computed("octet_length(request::text)")),
    sa.UniqueConstraint("account_id", "schedule_id", name="uq_schedules_schedule_id"),
    sa.CheckConstraint("overlap IN ('skip', 'queue', 'cancel', 'allow')", name="overlap"),
    sa.CheckConstraint("paused_reason IN ('by_request', 'key_revoked', 'failing')", name="paused_reason"),
    sa.CheckConstraint("(paused_reason IS NULL) = (paused_at IS NULL)", name="paused"),
    sa.CheckConstraint("paused_reason IS NULL OR next_at IS NULL", name="paused_is_not_due"),
)

sa.Index("ix_schedules_next_at", schedules.c.next_at, postgresql_where=sa.text("next_at IS NOT NULL"))
sa.Index("ix_schedules_aligned_at", schedules.c.aligned_at, postgresql_where=sa.text("next_at IS NOT NULL"))
sa.Index(
    "ix_schedules_newest",
    schedules.c.account_id,
    schedules.c.created_at.desc(),
    schedules.c.schedule_id.desc(),
)

sa.Index("ix_schedules_unmirrored", schedules.c.id, postgresql_where=sa.text("revision <> mirrored_revision"))

deleted_schedules = sa.Table(
    "deleted_schedules",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True, comment="Temporal still has it"),
)

schedule_runs = sa.Table(
    "schedule_runs",
    metadata,
    sa.Column("schedule", sa.Uuid, sa.ForeignKey("schedules.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("due_at", UtcDateTime, primary_key=True),
    sa.Column("trigger", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False, comment="Of its run, if there is one"),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("error", sa.Text, comment="The code of the last refusal"),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column(
        "next_attempt_at", UtcDateTime, nullable=False, comment="While one is under way: when it is lost"
    ),
    sa.Column("start_by", UtcDateTime, nullable=False, comment="Later no run is started"),
    sa.Column("started_at", UtcDateTime),
    sa.Column("waits_for", sa.Text, comment="A run that has not ended, or is being started"),
    sa.CheckConstraint("trigger IN ('cron', 'request')", name="trigger"),
    sa.CheckConstraint(
        "outcome IN ('starting', 'waiting', 'started', 'skipped', 'missed', 'refused')", name="outcome"
    ),
    sa.CheckConstraint("outcome <> 'started' OR started_at IS NOT NULL", name="started"),
)

sa.Index("ix_schedule_runs_open", schedule_runs.c.schedule, postgresql_where=sa.text(OPEN))
sa.Index("ix_schedule_runs_due_at", schedule_runs.c.due_at)
