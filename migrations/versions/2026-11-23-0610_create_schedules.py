"""create schedules."""

import sqlalchemy as sa
from alembic import op

revision: str = "3f7a91c0d24e"
down_revision: str | None = "2b7f60d9c3a1"

_MOMENT = sa.DateTime(timezone=True)

# Their requests count as those of runs do.
_FOLLOW = """
CREATE FUNCTION storage_follows_schedules() RETURNS trigger LANGUAGE plpgsql AS $$
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
AFTER {operation} ON schedules REFERENCING {names}
FOR EACH STATEMENT EXECUTE FUNCTION storage_follows_schedules()
"""
_ROWS = {"INSERT": "NEW TABLE AS added", "DELETE": "OLD TABLE AS removed"}

# Most updates of a schedule do not change its size.
_FOLLOW_A_SCHEDULE = """
CREATE FUNCTION storage_follows_a_schedule() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storage_changes (owner, bytes) VALUES (new.account_id::text, new.bytes - old.bytes);
    RETURN NULL;
END
$$
"""
_UPDATE_TRIGGER = """
CREATE TRIGGER storage_follows_update AFTER UPDATE ON schedules
FOR EACH ROW WHEN (old.bytes IS DISTINCT FROM new.bytes) EXECUTE FUNCTION storage_follows_a_schedule()
"""


def upgrade() -> None:
    """Apply while older servers may still run: they do not use the tables."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    _create_schedules()
    _create_schedule_runs()
    op.execute(_FOLLOW)
    for operation, names in _ROWS.items():
        op.execute(_TRIGGER.format(operation=operation, names=names))
    op.execute(_FOLLOW_A_SCHEDULE)
    op.execute(_UPDATE_TRIGGER)


def _create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("schedule_id", sa.Text(), nullable=False, comment="Chosen by the client"),
        sa.Column("api_key_id", sa.Uuid(), nullable=False, comment="Its runs use it"),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("time_zone", sa.Text(), nullable=False),
        sa.Column("start_at", _MOMENT),
        sa.Column("end_at", _MOMENT),
        sa.Column("overlap", sa.Text(), nullable=False),
        sa.Column("catch_up_s", sa.Integer(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False, comment="Of its runs, with files"),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("state_key", sa.Text()),
        sa.Column("question", sa.Text(), nullable=False, comment="How the text of the last message begins"),
        sa.Column(
            "creation_hash", sa.LargeBinary(), nullable=False, comment="Of the request that created it"
        ),
        sa.Column("paused_reason", sa.Text()),
        sa.Column("paused_at", _MOMENT),
        sa.Column("next_at", _MOMENT, comment="Null while it is paused and after its last due time"),
        sa.Column("aligned_at", _MOMENT, nullable=False, comment="When next_at was computed"),
        sa.Column("last_at", _MOMENT, comment="The latest due time"),
        sa.Column("refusals", sa.Integer(), nullable=False, server_default="0", comment="In a row"),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("bytes", sa.BigInteger(), sa.Computed("octet_length(request::text)", persisted=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_schedules_account_id")),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"], name=op.f("fk_schedules_api_key_id")),
        sa.UniqueConstraint("account_id", "schedule_id", name="uq_schedules_schedule_id"),
        sa.CheckConstraint(
            "overlap IN ('skip', 'queue', 'cancel', 'allow')", name=op.f("ck_schedules_overlap")
        ),
        sa.CheckConstraint(
            "paused_reason IN ('by_request', 'key_revoked', 'failing')",
            name=op.f("ck_schedules_paused_reason"),
        ),
        sa.CheckConstraint("(paused_reason IS NULL) = (paused_at IS NULL)", name=op.f("ck_schedules_paused")),
        sa.CheckConstraint(
            "paused_reason IS NULL OR next_at IS NULL", name=op.f("ck_schedules_paused_is_not_due")
        ),
    )
    is_due = sa.text("next_at IS NOT NULL")
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"], postgresql_where=is_due)
    op.create_index("ix_schedules_aligned_at", "schedules", ["aligned_at"], postgresql_where=is_due)
    op.create_index(
        "ix_schedules_newest",
        "schedules",
        ["account_id", sa.text("created_at DESC"), sa.text("schedule_id DESC")],
    )


def _create_schedule_runs() -> None:
    op.create_table(
        "schedule_runs",
        sa.Column("schedule", sa.Uuid(), nullable=False),
        sa.Column("due_at", _MOMENT, nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False, comment="Of its run, if there is one"),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), comment="The code of the last refusal"),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column(
            "next_attempt_at", _MOMENT, nullable=False, comment="While one is under way: when it is lost"
        ),
        sa.Column("start_by", _MOMENT, nullable=False, comment="Later no run is started"),
        sa.Column("started_at", _MOMENT),
        sa.Column("waits_for", sa.Text(), comment="A run that has not ended, or is being started"),
        sa.PrimaryKeyConstraint("schedule", "due_at", name=op.f("pk_schedule_runs")),
        sa.ForeignKeyConstraint(
            ["schedule"], ["schedules.id"], ondelete="CASCADE", name=op.f("fk_schedule_runs_schedule")
        ),
        sa.CheckConstraint("trigger IN ('cron', 'request')", name=op.f("ck_schedule_runs_trigger")),
        sa.CheckConstraint(
            "outcome IN ('starting', 'waiting', 'started', 'skipped', 'missed', 'refused')",
            name=op.f("ck_schedule_runs_outcome"),
        ),
        sa.CheckConstraint(
            "outcome <> 'started' OR started_at IS NOT NULL", name=op.f("ck_schedule_runs_started")
        ),
    )
    op.create_index(
        "ix_schedule_runs_open",
        "schedule_runs",
        ["schedule"],
        postgresql_where=sa.text("outcome IN ('starting', 'waiting')"),
    )
    op.create_index("ix_schedule_runs_due_at", "schedule_runs", ["due_at"])
