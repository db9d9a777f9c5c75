"""Runs and the events of finished runs."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.platform.db import Json, UtcDateTime, metadata
from app.platform.postgres.labels import index_labels

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
    Column("objects", ARRAY(Text), comment="The SHA-256 of its strings that are stored outside"),
    Column("question", Text, comment="How the text of its last message begins"),
    Column("request_hash", LargeBinary, nullable=False),
    Column("request_id", Text),
    Column("state_key", Text, comment="The conversation it belongs to"),
    Column("turn", Integer, comment="Its place in that conversation"),
    Column("session_id", Uuid, comment="The branch it belongs to"),
    Column("message_id", Text, comment="The client's id of its message"),
    Column(
        "shown_answer",
        Json(none_as_null=True),
        comment="What its client shows of the answer before it, if that may not be all",
    ),
    Column(
        "passed_on",
        Json(none_as_null=True),
        comment="The earlier runs whose messages its message begins with",
    ),
    Column("interruption", Json(none_as_null=True), comment="How far a wish to stop it has come"),
    Column("final", Json(none_as_null=True)),
    Column("meters", Json(none_as_null=True), comment="What the two meters saw"),
    Column("cost_comparison", Json(none_as_null=True), comment="What it cost by both meters"),
    Column("skills", Json(none_as_null=True), comment="The skills it could read, with their hashes"),
    Column("tool_failures", Integer, comment="How many tool calls failed"),
    Column("parked", Json(none_as_null=True), comment="What its next attempt goes on with"),
    Column("parked_at", UtcDateTime, comment="Since when it waits"),
    Column(
        "parked_s",
        Double,
        nullable=False,
        server_default="0",
        comment="How long it has waited until it was ready again",
    ),
    Column("process_id", Uuid, comment="The process that executes it, or was the last"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("contents_deleted_at", UtcDateTime),
    Column("events_deleted_at", UtcDateTime),
    Column("held_for", Text, comment="What a queued run waits for; null: for a worker"),
    Column("priority", SmallInteger, nullable=False, server_default="3", comment="1 is the highest"),
    Column(
        "rank",
        Integer,
        nullable=False,
        server_default="0",
        comment="How many runs of its account were active when it became ready",
    ),
    Column("ready_at", UtcDateTime, comment="Since when it waits for a worker"),
    Column("offered_to", Uuid, comment="The process that keeps its conversation's agent"),
    Column("offered_until", UtcDateTime, comment="When any worker may start it"),
    Column("submitted_at", UtcDateTime, comment="When it was last submitted to Temporal"),
    Column("start_after", UtcDateTime),
    Column("queued_position", Integer, comment="Of its event `queued`; null: it was started at once"),
    Column("traceparent", Text, comment="The span that started it"),
    Column("tracestate", Text, comment="Of that span"),
    Column("stops_unread", Boolean, comment="Whether it is cancelled when its readers have left"),
    Column(
        "has_commands",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether it has got some in `queued_commands`",
    ),
    Column("end_user", Text, comment="The caller's id of the person it is for"),
    Column("tags", JSONB(none_as_null=True), comment="Names and values by which usage is summed up"),
    Column("metadata", Json(none_as_null=True), comment="What its caller keeps with it"),
    Column("feedback", Json(none_as_null=True), comment="What a person thinks of its answer"),
    Column(
        "bytes",
        BigInteger,
        Computed("coalesce(octet_length(request::text), 0) + coalesce(octet_length(final::text), 0)"),
    ),
    CheckConstraint(
        "status IN ('queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled')", name="status"
    ),
    CheckConstraint(
        "held_for IS NULL OR held_for IN ('turn', 'limit', 'start_time') AND status = 'queued'",
        name="held_for",
    ),
)

Index("ix_runs_newest", runs.c.account_id, runs.c.created_at.desc(), runs.c.run_id.desc())
index_labels(runs, time="created_at", id_="run_id")

Index(
    "ix_runs_objects",
    runs.c.objects,
    postgresql_using="gin",
    postgresql_where=text("objects IS NOT NULL"),
)

Index("ix_runs_running", runs.c.process_id, postgresql_where=text("status = 'running'"))

Index("ix_runs_waiting", runs.c.account_id, postgresql_where=text("status = 'waiting'"))

Index(
    "ix_runs_waiting_stopped",
    runs.c.account_id,
    postgresql_where=text("status = 'waiting' AND interruption IS NOT NULL"),
)

Index(
    "ix_runs_active",
    runs.c.account_id,
    runs.c.api_key_id,
    postgresql_where=text("status IN ('queued', 'running') AND held_for IS NULL"),
)

Index(
    "ix_runs_ready",
    runs.c.rank,
    runs.c.ready_at,
    postgresql_where=text("status = 'queued' AND held_for IS NULL"),
)

Index(
    "ix_runs_held",
    runs.c.account_id,
    runs.c.held_for,
    runs.c.api_key_id,
    runs.c.priority,
    runs.c.created_at,
    runs.c.run_id,
    postgresql_where=text("held_for IS NOT NULL"),
)

Index("ix_runs_start_after", runs.c.start_after, postgresql_where=text("held_for = 'start_time'"))

Index(
    "ix_runs_with_contents",
    runs.c.ended_at,
    postgresql_where=text("contents_deleted_at IS NULL"),
)

Index(
    "ix_runs_with_events",
    runs.c.ended_at,
    postgresql_where=text("events_deleted_at IS NULL AND ended_at IS NOT NULL"),
)

Index(
    "ix_runs_of_account_with_contents",
    runs.c.account_id,
    runs.c.ended_at,
    postgresql_where=text("contents_deleted_at IS NULL AND ended_at IS NOT NULL"),
)

Index(
    "ix_runs_of_account_with_events",
    runs.c.account_id,
    runs.c.ended_at,
    postgresql_where=text("events_deleted_at IS NULL AND ended_at IS NOT NULL"),
)

Index(
    "ix_runs_answered",
    runs.c.account_id,
    runs.c.graph_id,
    runs.c.ended_at.desc(),
    postgresql_where=text("status = 'succeeded'"),
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

workers = Table(
    "workers",
    metadata,
    Column("process_id", Uuid, primary_key=True),
    Column("role", Text, nullable=False, server_default="serve", comment="serve, api or worker"),
    Column("version", Text, nullable=False),
    Column("places", Integer, nullable=False, comment="How many runs it executes at once"),
    Column("taken", Integer, nullable=False, comment="How many of them are taken"),
    Column("draining", Boolean, nullable=False, comment="Whether it takes no more runs"),
    Column("lease_s", Double, nullable=False, comment="For how long each heartbeat counts"),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False, comment="Its last heartbeat"),
    Column("agents", Json(none_as_null=True), comment="Its CLI processes by state; null: it starts none"),
)

queued_commands = Table(
    "queued_commands",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("account_id", Uuid, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("command", Json, nullable=False),
    Column("bytes", BigInteger, Computed("octet_length(command::text)")),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

Index("ix_queued_commands_account_id_run_id", queued_commands.c.account_id, queued_commands.c.run_id)

run_takeovers = Table(
    "run_takeovers",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True, comment="The attempt that was taken over"),
    Column("at", UtcDateTime, nullable=False, server_default=text("now()")),
    Column(
        "handed_over",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether the process gave the run away itself, because it stopped",
    ),
    Column("process_id", Uuid, comment="The process that had executed it"),
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
    Column("at", UtcDateTime, comment="When the first of them was produced"),
    Column("gaps", LargeBinary, comment="Of several: the milliseconds between each and the next"),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

run_readers = Table(
    "run_readers",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("process_id", Uuid, primary_key=True, comment="Where they read"),
    Column(
        "seen_at", UtcDateTime, nullable=False, comment="Renewed while they do; not compared with a clock"
    ),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

run_waits = Table(
    "run_waits",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("call_id", Text, primary_key=True, comment="By which it is answered"),
    Column("kind", Text, nullable=False, comment="permission, question, client_tool or budget"),
    Column("tool_call_id", Text, comment="The tool call that goes on with the answer"),
    Column("request", Json, nullable=False, comment="The event that asks for the answer"),
    Column("requested_at", UtcDateTime, nullable=False, server_default=text("now()")),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("resolved_by", Text, comment="decided, granted, expired or run_stopped; null: it waits"),
    Column("answer", Json(none_as_null=True), comment="Of one that was decided"),
    Column("resolved_at", UtcDateTime),
    Column(
        "parked",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether an attempt has left it to the next one, which has not begun with it",
    ),
    Column(
        "bytes",
        BigInteger,
        Computed("octet_length(request::text) + coalesce(octet_length(answer::text), 0)"),
    ),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

Index(
    "ix_run_waits_newest",
    run_waits.c.account_id,
    run_waits.c.requested_at,
    postgresql_where=text("resolved_by IS NULL"),
)

Index(
    "ix_run_waits_expires",
    run_waits.c.expires_at,
    postgresql_where=text("resolved_by IS NULL AND parked"),
)
