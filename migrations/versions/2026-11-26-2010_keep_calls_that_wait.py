"""keep calls that wait: a run whose calls wait for answers is in no process meanwhile."""

import sqlalchemy as sa
from alembic import op

revision: str = "7e03c5d9a1f4"
down_revision: str | None = "b4d81f0c6a27"
compatibility: str = "expand"

_WITH_WAITING = "status IN ('queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled')"

# Make an account's runs ready as far as its limits allow; returns how many. `conversation` is that of a run
# that has ended: its next turn is offered to the process that has executed that run.
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
