"""Runs and the events of finished runs."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.platform.db import Json, UtcDateTime, metadata
from app.platform.postgres.labels import index_labels

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("api_key_id", sa.Uuid, sa.ForeignKey("api_keys.id"), nullable=False),
    sa.Column("graph_id", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("request", Json(none_as_null=True), comment="Null once it is deleted"),
    sa.Column("objects", ARRAY(sa.Text), comment="The SHA-256 of its strings that are stored outside"),
    sa.Column("question", sa.Text, comment="How the text of its last message begins"),
    sa.Column("request_hash", sa.LargeBinary, nullable=False),
    sa.Column("request_id", sa.Text),
    sa.Column("state_key", sa.Text, comment="The conversation it belongs to"),
    sa.Column("turn", sa.Integer, comment="Its place in that conversation"),
    sa.Column("session_id", sa.Uuid, comment="The branch it belongs to"),
    sa.Column("message_id", sa.Text, comment="The client's id of its message"),
    sa.Column(
        "shown_answer",
        Json(none_as_null=True),
        comment="What its client shows of the answer before it, if that may not be all",
    ),
    sa.Column(
        "passed_on",
        Json(none_as_null=True),
        comment="The earlier runs whose messages its message begins with",
    ),
    sa.Column("interruption", Json(none_as_null=True), comment="How far a wish to stop it has come"),
    sa.Column("final", Json(none_as_null=True)),
    sa.Column("meters", Json(none_as_null=True), comment="What the two meters saw"),
    sa.Column("cost_comparison", Json(none_as_null=True), comment="What it cost by both meters"),
    sa.Column("skills", Json(none_as_null=True), comment="The skills it could read, with their hashes"),
    sa.Column("tool_failures", sa.Integer, comment="How many tool calls failed"),
    sa.Column("parked", Json(none_as_null=True), comment="What its next attempt goes on with"),
    sa.Column("parked_at", UtcDateTime, comment="Since when it waits"),
    sa.Column(
        "parked_s",
        sa.Double,
        nullable=False,
        server_default="0",
        comment="How long it has waited until it was ready again",
    ),
    sa.Column("process_id", sa.Uuid, comment="The process that executes it, or was the last"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("contents_deleted_at", UtcDateTime),
    sa.Column("events_deleted_at", UtcDateTime),
    sa.Column("held_for", sa.Text, comment="What a queued run waits for; null: for a worker"),
    sa.Column("priority", sa.SmallInteger, nullable=False, server_default="3", comment="1 is the highest"),
    sa.Column(
        "rank",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="How many runs of its account were active when it became ready",
    ),
    sa.Column("ready_at", UtcDateTime, comment="Since when it waits for a worker"),
    sa.Column("offered_to", sa.Uuid, comment="The process that keeps its conversation's agent"),
    sa.Column("offered_until", UtcDateTime, comment="When any worker may start it"),
    sa.Column("submitted_at", UtcDateTime, comment="When it was last submitted to Temporal"),
    sa.Column("start_after", UtcDateTime),
    sa.Column("queued_position", sa.Integer, comment="Of its event `queued`; null: it was started at once"),
    sa.Column("traceparent", sa.Text, comment="The span that started it"),
    sa.Column("tracestate", sa.Text, comment="Of that span"),
    sa.Column("stops_unread", sa.Boolean, comment="Whether it is cancelled when its readers have left"),
    sa.Column(
        "has_commands",
        sa.Boolean,
        nullable=False,
        server_default=sa.text("false"),
        comment="Whether it has got some in `queued_commands`",
    ),
    sa.Column("end_user", sa.Text, comment="The caller's id of the person it is for"),
    sa.Column("tags", JSONB(none_as_null=True), comment="Names and values by which usage is summed up"),
    sa.Column("metadata", Json(none_as_null=True), comment="What its caller keeps with it"),
    sa.Column("feedback", Json(none_as_null=True), comment="What a person thinks of its answer"),
    sa.Column(
        "bytes",
        sa.BigInteger,
        sa.Computed("coalesce(octet_length(request::text), 0) + coalesce(octet_length(final::text), 0)"),
    ),
    sa.CheckConstraint(
        "status IN ('queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled')", name="status"
    ),
    sa.CheckConstraint(
        "held_for IS NULL OR held_for IN ('turn', 'limit', 'start_time') AND status = 'queued'",
        name="held_for",
    ),
)

sa.Index("ix_runs_newest", runs.c.account_id, runs.c.created_at.desc(), runs.c.run_id.desc())
index_labels(runs, time="created_at", id_="run_id")

sa.Index(
    "ix_runs_objects",
    runs.c.objects,
    postgresql_using="gin",
    postgresql_where=sa.text("objects IS NOT NULL"),
)

sa.Index("ix_runs_running", runs.c.process_id, postgresql_where=sa.text("status = 'running'"))

sa.Index("ix_runs_waiting", runs.c.account_id, postgresql_where=sa.text("status = 'waiting'"))

sa.Index(
    "ix_runs_waiting_stopped",
    runs.c.account_id,
    postgresql_where=sa.text("status = 'waiting' AND interruption IS NOT NULL"),
)

sa.Index(
    "ix_runs_active",
    runs.c.account_id,
    runs.c.api_key_id,
    postgresql_where=sa.text("status IN ('queued', 'running') AND held_for IS NULL"),
)

sa.Index(
    "ix_runs_ready",
    runs.c.rank,
    runs.c.ready_at,
    postgresql_where=sa.text("status = 'queued' AND held_for IS NULL"),
)

sa.Index(
    "ix_runs_held",
    runs.c.account_id,
    runs.c.held_for,
    runs.c.api_key_id,
    runs.c.priority,
    runs.c.created_at,
    runs.c.run_id,
    postgresql_where=sa.text("held_for IS NOT NULL"),
)

sa.Index("ix_runs_start_after", runs.c.start_after, postgresql_where=sa.text("held_for = 'start_time'"))

sa.Index(
    "ix_runs_with_contents",
    runs.c.ended_at,
    postgresql_where=sa.text("contents_deleted_at IS NULL"),
)

sa.Index(
    "ix_runs_with_events",
    runs.c.ended_at,
    postgresql_where=sa.text("events_deleted_at IS NULL AND ended_at IS NOT NULL"),
)

sa.Index(
    "ix_runs_of_account_with_contents",
    runs.c.account_id,
    runs.c.ended_at,
    postgresql_where=sa.text("contents_deleted_at IS NULL AND ended_at IS NOT NULL"),
)

sa.Index(
    "ix_runs_of_account_with_events",
    runs.c.account_id,
    runs.c.ended_at,
    postgresql_where=sa.text("events_deleted_at IS NULL AND ended_at IS NOT NULL"),
)

sa.Index(
    "ix_runs_answered",
    runs.c.account_id,
    runs.c.graph_id,
    runs.c.ended_at.desc(),
    postgresql_where=sa.text("status = 'succeeded'"),
)

DRIFTED = "(meters ->> 'drift')::int > 0 OR (cost_comparison ->> 'drift_usd')::numeric <> 0"
"""Whether the meters of a run disagree, on messages or on the cost."""

sa.Index(
    "ix_runs_drifted",
    runs.c.account_id,
    runs.c.ended_at.desc(),
    runs.c.run_id.desc(),
    postgresql_where=sa.text(DRIFTED),
)

sa.Index(
    "ix_runs_turns",
    runs.c.account_id,
    runs.c.state_key,
    runs.c.turn,
    postgresql_where=sa.text("state_key IS NOT NULL"),
)


def _clock_ahead() -> sa.Column[float]:
    comment = "How far the clock of the process is ahead of the database's"
    return sa.Column("clock_ahead_s", sa.Double, nullable=False, server_default="0", comment=comment)


workers = sa.Table(
    "workers",
    metadata,
    sa.Column("process_id", sa.Uuid, primary_key=True),
    sa.Column("role", sa.Text, nullable=False, server_default="serve", comment="serve, api or worker"),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("places", sa.Integer, nullable=False, comment="How many runs it executes at once"),
    sa.Column("taken", sa.Integer, nullable=False, comment="How many of them are taken"),
    sa.Column("draining", sa.Boolean, nullable=False, comment="Whether it takes no more runs"),
    sa.Column("lease_s", sa.Double, nullable=False, comment="For how long each heartbeat counts"),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False, comment="Its last heartbeat"),
    sa.Column("agents", Json(none_as_null=True), comment="Its CLI processes by state; null: it starts none"),
    _clock_ahead(),
)

queued_commands = sa.Table(
    "queued_commands",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("account_id", sa.Uuid, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("command", Json, nullable=False),
    sa.Column("bytes", sa.BigInteger, sa.Computed("octet_length(command::text)")),
    sa.ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

sa.Index("ix_queued_commands_account_id_run_id", queued_commands.c.account_id, queued_commands.c.run_id)

run_takeovers = sa.Table(
    "run_takeovers",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True, comment="The attempt that was taken over"),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.text("now()")),
    sa.Column(
        "handed_over",
        sa.Boolean,
        nullable=False,
        server_default=sa.text("false"),
        comment="Whether the process gave the run away itself, because it stopped",
    ),
    sa.Column("process_id", sa.Uuid, comment="The process that had executed it"),
    _clock_ahead(),
    sa.ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

run_events = sa.Table(
    "run_events",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("last_position", sa.Integer, nullable=False),
    sa.Column("data", Json, nullable=False),
    sa.Column("bytes", sa.BigInteger, sa.Computed("octet_length(data::text)")),
    sa.Column("at", UtcDateTime, comment="When the first of them was produced"),
    sa.Column("gaps", sa.LargeBinary, comment="Of several: the milliseconds between each and the next"),
    sa.ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

run_readers = sa.Table(
    "run_readers",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("process_id", sa.Uuid, primary_key=True, comment="Where they read"),
    sa.Column(
        "seen_at", UtcDateTime, nullable=False, comment="Renewed while they do; not compared with a clock"
    ),
    sa.ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

run_waits = sa.Table(
    "run_waits",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("call_id", sa.Text, primary_key=True, comment="By which it is answered"),
    sa.Column("kind", sa.Text, nullable=False, comment="permission, question, client_tool or budget"),
    sa.Column("tool_call_id", sa.Text, comment="The tool call that goes on with the answer"),
    sa.Column("request", Json, nullable=False, comment="The event that asks for the answer"),
    sa.Column("requested_at", UtcDateTime, nullable=False, server_default=sa.text("now()")),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("resolved_by", sa.Text, comment="decided, granted, expired or run_stopped; null: it waits"),
    sa.Column("answer", Json(none_as_null=True), comment="Of one that was decided"),
    sa.Column("resolved_at", UtcDateTime),
    sa.Column(
        "parked",
        sa.Boolean,
        nullable=False,
        server_default=sa.text("false"),
        comment="Whether an attempt has left it to the next one, which has not begun with it",
    ),
    sa.Column(
        "bytes",
        sa.BigInteger,
        sa.Computed("octet_length(request::text) + coalesce(octet_length(answer::text), 0)"),
    ),
    sa.ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

sa.Index(
    "ix_run_waits_newest",
    run_waits.c.account_id,
    run_waits.c.requested_at,
    postgresql_where=sa.text("resolved_by IS NULL"),
)

sa.Index(
    "ix_run_waits_expires",
    run_waits.c.expires_at,
    postgresql_where=sa.text("resolved_by IS NULL AND parked"),
)
