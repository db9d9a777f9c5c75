"""dispatch runs: the rows of runs are the queue, and processes send one heartbeat for all their runs."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "c3a97d52e816"
down_revision: str | None = "3f7a91c0d24e"

_COLUMNS: tuple[sa.Column[Any], ...] = (
    sa.Column("held_for", sa.Text(), comment="What a queued run waits for; null: for a worker"),
    sa.Column("priority", sa.SmallInteger(), nullable=False, server_default="3", comment="1 is the highest"),
    sa.Column(
        "rank",
        sa.Integer(),
        nullable=False,
        server_default="0",
        comment="How many runs of its account were active when it became ready",
    ),
    sa.Column("ready_at", sa.DateTime(timezone=True), comment="Since when it waits for a worker"),
    sa.Column("offered_to", sa.Uuid(), comment="The process that keeps its conversation's agent"),
    sa.Column("offered_until", sa.DateTime(timezone=True), comment="When any worker may start it"),
    sa.Column("start_after", sa.DateTime(timezone=True)),
    sa.Column("queued_position", sa.Integer(), comment="Of its event `queued`; null: it was started at once"),
    sa.Column(
        "has_commands",
        sa.Boolean(),
        nullable=False,
        server_default=sa.text("false"),
        comment="Whether it has got some in `queued_commands`",
    ),
)

_STORAGE = (
    """
    CREATE FUNCTION storage_follows_queued_commands() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO storage_changes (owner, bytes)
            SELECT account_id::text, sum(bytes) FROM changed GROUP BY 1 HAVING sum(bytes) <> 0;
        ELSE
            INSERT INTO storage_changes (owner, bytes)
            SELECT account_id::text, -sum(bytes) FROM changed GROUP BY 1 HAVING sum(bytes) <> 0;
        END IF;
        RETURN NULL;
    END
    $$
    """,
    *(
        f"""
        CREATE TRIGGER storage_follows_{operation}
        AFTER {operation} ON queued_commands REFERENCING {rows} TABLE AS changed
        FOR EACH STATEMENT EXECUTE FUNCTION storage_follows_queued_commands()
        """
        for operation, rows in (("insert", "NEW"), ("delete", "OLD"))
    ),
)

_INDEXES = (
    """
    CREATE INDEX ix_runs_active ON runs (account_id, api_key_id)
     WHERE status IN ('queued', 'running') AND held_for IS NULL
    """,
    "CREATE INDEX ix_runs_ready ON runs (rank, ready_at) WHERE status = 'queued' AND held_for IS NULL",
    """
    CREATE INDEX ix_runs_held ON runs (account_id, held_for, api_key_id, priority, created_at, run_id)
     WHERE held_for IS NOT NULL
    """,
    "CREATE INDEX ix_runs_start_after ON runs (start_after) WHERE held_for = 'start_time'",
    "CREATE INDEX ix_runs_running ON runs (process_id) WHERE status = 'running'",
)

# What later migrations replace stands in those: `live_places`, `active_runs`, `admission`, `release_runs`,
# `next_held_run`.
_FUNCTIONS = (
    """
    -- Decisions about an account's runs are made one after the other. Always before its row is locked.
    CREATE FUNCTION lock_dispatch(account uuid) RETURNS void LANGUAGE sql AS $$
        SELECT pg_advisory_xact_lock(hashtextextended('runtally.dispatch ' || account, 0))
    $$
    """,
    """
    -- How many runs of one account may be active: as configured, or its share. A run that executes cannot be
    -- suspended, so as soon as there are several accounts a quarter of the places is kept for the others.
    CREATE FUNCTION active_limit(configured int) RETURNS int LANGUAGE plpgsql STABLE AS $$
    DECLARE
        places int;
    BEGIN
        IF configured IS NOT NULL THEN
            RETURN configured;
        END IF;
        places := live_places();
        IF (SELECT count(*) FROM (SELECT FROM accounts LIMIT 2) AS several) > 1 THEN
            places := places * 3 / 4;
        END IF;
        RETURN greatest(1, places);
    END
    $$
    """,
    """
    -- The worker that has executed the conversation's previous turn, and so may keep its agent.
    CREATE FUNCTION worker_of_conversation(account uuid, conversation text, next_turn int, within interval)
    RETURNS uuid LANGUAGE sql STABLE AS $$
        SELECT process_id
          FROM (SELECT process_id, ended_at FROM runs
                 WHERE account_id = account AND state_key = conversation AND turn < next_turn
                 ORDER BY turn DESC LIMIT 1) AS previous
          JOIN workers USING (process_id)
         WHERE ended_at > now() - within AND NOT draining
           AND seen_at > now() - make_interval(secs => lease_s)
    $$
    """,
)


def upgrade() -> None:
    """Apply while no older server runs: those do not know that a queued run may be in no process."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "workers",
        sa.Column("process_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("places", sa.Integer(), nullable=False, comment="How many runs it executes at once"),
        sa.Column("taken", sa.Integer(), nullable=False, comment="How many of them are taken"),
        sa.Column("draining", sa.Boolean(), nullable=False, comment="Whether it takes no more runs"),
        sa.Column("lease_s", sa.Double(), nullable=False, comment="For how long each heartbeat counts"),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, comment="Its last heartbeat"),
        sa.PrimaryKeyConstraint("process_id", name=op.f("pk_workers")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "queued_commands",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), sa.Computed("octet_length(command::text)", persisted=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queued_commands")),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            ondelete="CASCADE",
            name=op.f("fk_queued_commands_account_id_run_id"),
        ),
    )
    op.create_index(op.f("ix_queued_commands_account_id_run_id"), "queued_commands", ["account_id", "run_id"])
    for column in _COLUMNS:
        op.add_column("runs", column)
    op.create_check_constraint(
        op.f("ck_runs_held_for"),
        "runs",
        "held_for IS NULL OR held_for IN ('turn', 'limit', 'start_time') AND status = 'queued'",
    )
    # Those of before were in a process that has ended.
    op.execute("UPDATE runs SET status = 'running' WHERE status = 'queued'")
    op.alter_column(
        "runs", "process_id", nullable=True, comment="The process that executes it, or was the last"
    )
    op.drop_index("ix_runs_unfinished", "runs")
    op.drop_column("runs", "heartbeat_at")
    for statement in (*_STORAGE, *_INDEXES, *_FUNCTIONS):
        op.execute(statement)
