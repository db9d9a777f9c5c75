"""keep calls that wait: a run whose calls wait for answers is in no process meanwhile."""

import sqlalchemy as sa
from alembic import op

revision: str = "7e03c5d9a1f4"
down_revision: str | None = "b4d81f0c6a27"
compatibility: str = "expand"

_WITH_WAITING = "status IN ('queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled')"

# As before, except that a waiting run holds the later turns of its conversation.
_ADMISSION = """
CREATE OR REPLACE FUNCTION admission(
    account uuid, key uuid, conversation text, at_turn int, starts_after timestamptz, starts_at_once bool,
    per_account int, per_key int, max_waiting int, process uuid, kept_for interval
) RETURNS TABLE (
    held_for text, rank int, queued_position int, is_started bool, offered_to uuid, full_at int
) LANGUAGE plpgsql AS $$
DECLARE
    account_limit int;
    waiting int;
    earlier int := 0;
    is_full bool;
BEGIN
    PERFORM lock_dispatch(account);
    account_limit := active_limit(per_account);
    rank := active_runs(account);
    waiting := (SELECT count(*) FROM (SELECT FROM runs WHERE runs.held_for IS NOT NULL
                                       LIMIT max_waiting) AS held)
             + (SELECT count(*) FROM (SELECT FROM runs WHERE status = 'queued' AND runs.held_for IS NULL
                                       LIMIT max_waiting) AS ready);
    is_full := waiting >= max_waiting
           AND waiting + (SELECT count(*) FROM runs WHERE status = 'running')
               >= max_waiting + live_places();
    IF NOT is_full AND waiting >= (max_waiting + 1) / 2 THEN
        -- Half of the queue, so that others have room.
        is_full := account_limit + (max_waiting + 1) / 2 <= rank
            + (SELECT count(*) FROM runs WHERE account_id = account AND runs.held_for IS NOT NULL);
    END IF;
    IF is_full THEN
        full_at := max_waiting + live_places();
    END IF;
    IF conversation IS NOT NULL THEN
        earlier := (SELECT count(*) FROM runs WHERE account_id = account AND state_key = conversation
                       AND turn < at_turn AND status IN ('queued', 'running', 'waiting'));
    END IF;
    held_for := CASE
        WHEN starts_after > now() THEN 'start_time'
        WHEN earlier > 0 THEN 'turn'
        WHEN rank >= account_limit OR per_key IS NOT NULL AND per_key <=
             (SELECT count(*) FROM runs WHERE account_id = account AND api_key_id = key
                 AND status IN ('queued', 'running') AND runs.held_for IS NULL) THEN 'limit'
    END;
    IF held_for IS NULL AND conversation IS NOT NULL THEN
        offered_to := worker_of_conversation(account, conversation, at_turn, kept_for);
    END IF;
    is_started := starts_at_once AND held_for IS NULL AND coalesce(offered_to = process, true);
    IF is_started THEN
        offered_to := NULL;
    ELSE
        queued_position := CASE WHEN held_for = 'turn' THEN earlier ELSE waiting + 1 END;
        IF held_for IS NULL AND NOT is_full THEN
            PERFORM pg_notify('runtally_runs_ready', coalesce(offered_to::text, ''));
        END IF;
    END IF;
    RETURN NEXT;
END
$$
"""
_RELEASE = """
CREATE OR REPLACE FUNCTION release_runs(
    account uuid, conversation text, process uuid, per_account int, per_key int, offered_for interval
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    account_limit int;
    active int;
    next_run text;
    offered uuid;
    released int := 0;
BEGIN
    PERFORM lock_dispatch(account);
    -- Skips rows that another transaction ends: it waits for this one.
    UPDATE runs SET held_for = 'limit'
     WHERE (account_id, run_id) IN (
           SELECT account_id, run_id FROM runs
            WHERE account_id = account AND held_for = 'start_time' AND start_after <= now()
              FOR UPDATE SKIP LOCKED);
    IF conversation IS NOT NULL THEN
        SELECT run_id INTO next_run FROM runs
         WHERE account_id = account AND state_key = conversation
           AND status IN ('queued', 'running', 'waiting')
         ORDER BY turn LIMIT 1;
        -- Whoever has locked the row ends the run, and releases the next one.
        UPDATE runs SET held_for = 'limit', offered_to = process
         WHERE (account_id, run_id) IN (
               SELECT account_id, run_id FROM runs
                WHERE account_id = account AND run_id = next_run AND held_for = 'turn'
                  FOR UPDATE SKIP LOCKED);
    END IF;
    IF NOT EXISTS (SELECT FROM runs WHERE account_id = account AND held_for = 'limit') THEN
        RETURN 0;
    END IF;
    account_limit := active_limit(per_account);
    active := active_runs(account);
    WHILE active < account_limit LOOP
        next_run := next_held_run(account, per_key);
        UPDATE runs
           SET held_for = NULL, rank = active, ready_at = clock_timestamp(),
               offered_until = CASE WHEN offered_to IS NOT NULL THEN clock_timestamp() + offered_for END
         WHERE (account_id, run_id) IN (
               SELECT account_id, run_id FROM runs
                WHERE account_id = account AND run_id = next_run FOR UPDATE SKIP LOCKED)
        RETURNING offered_to INTO offered;
        EXIT WHEN NOT FOUND;
        PERFORM pg_notify('runtally_runs_ready', coalesce(offered::text, ''));
        active := active + 1;
        released := released + 1;
    END LOOP;
    RETURN released;
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: to them a waiting run has ended."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("runs", sa.Column("parked", sa.JSON(), comment="What its next attempt goes on with"))
    op.add_column("runs", sa.Column("parked_at", sa.DateTime(timezone=True), comment="Since when it waits"))
    op.add_column(
        "runs",
        sa.Column(
            "parked_s",
            sa.Double(),
            nullable=False,
            server_default="0",
            comment="How long it has waited until it was ready again",
        ),
    )
    # Allows more than before, so the rows that are there need no check.
    op.execute("ALTER TABLE runs DROP CONSTRAINT ck_runs_status")
    op.execute(f"ALTER TABLE runs ADD CONSTRAINT ck_runs_status CHECK ({_WITH_WAITING}) NOT VALID")
    op.execute("CREATE INDEX ix_runs_waiting ON runs (account_id) WHERE status = 'waiting'")
    op.execute(_ADMISSION)
    op.execute(_RELEASE)
    op.create_table(
        "run_waits",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False, comment="By which it is answered"),
        sa.Column("kind", sa.Text(), nullable=False, comment="permission, question or client_tool"),
        sa.Column("tool_call_id", sa.Text(), comment="The tool call that goes on with the answer"),
        sa.Column("request", sa.JSON(), nullable=False, comment="The event that asks for the answer"),
        sa.Column(
            "requested_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "resolved_by", sa.Text(), comment="decided, granted, expired or run_stopped; null: it waits"
        ),
        sa.Column("answer", sa.JSON(), comment="Of one that was decided"),
        sa.Column("resolved_at", sa.DateTime(timezone=True)),
        sa.Column(
            "parked",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="Whether an attempt has left it to the next one, which has not begun with it",
        ),
        sa.PrimaryKeyConstraint("account_id", "run_id", "call_id", name=op.f("pk_run_waits")),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            ondelete="CASCADE",
            name=op.f("fk_run_waits_account_id_run_id"),
        ),
    )
    op.execute(
        "CREATE INDEX ix_run_waits_open ON run_waits (account_id, expires_at) WHERE resolved_by IS NULL"
    )
    op.execute(
        "CREATE INDEX ix_run_waits_expires ON run_waits (expires_at) WHERE resolved_by IS NULL AND parked"
    )
