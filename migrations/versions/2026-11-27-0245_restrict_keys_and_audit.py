"""restrict keys, suspend accounts, and record what is done to them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision: str = "b5d2e8417c6f"
down_revision: str | None = "5d1e8a70c3f9"
compatibility: str = "expand"

_FINAL = """
CREATE FUNCTION audit_entries_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_entries: an entry is never changed or deleted (%)', TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""
_TRIGGER = """
CREATE TRIGGER audit_entries_are_final
BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries
FOR EACH STATEMENT EXECUTE FUNCTION audit_entries_are_final()
"""

_KEY_IS_FULL = """
-- Whether another active run of a key would exceed its limit, or that of a key that it was made with.
CREATE FUNCTION key_is_full(account uuid, key uuid, per_key int) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT per_key IS NOT NULL AND per_key <=
           (SELECT count(*) FROM runs WHERE account_id = account AND api_key_id = key
               AND status IN ('queued', 'running') AND runs.held_for IS NULL)
        OR EXISTS (
           SELECT FROM api_keys AS own, jsonb_array_elements(own.limits) AS shared
            WHERE own.id = key AND (shared ->> 'concurrent_runs')::int <= (
                  SELECT count(*) FROM runs JOIN api_keys AS each ON each.id = runs.api_key_id
                   WHERE runs.account_id = account AND runs.status IN ('queued', 'running')
                     AND runs.held_for IS NULL
                     AND each.limits @> jsonb_build_array(jsonb_build_object('of', shared -> 'of'))))
$$
"""

# What becomes of a new run. Also wakes a worker for a run that is ready.
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
        WHEN rank >= account_limit OR key_is_full(account, key, per_key) THEN 'limit'
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
# By priority; then of the key with the fewest active runs; then the oldest.
_NEXT_HELD_RUN = """
CREATE OR REPLACE FUNCTION next_held_run(account uuid, per_key int) RETURNS text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE first_of_key AS (
        (SELECT api_key_id, priority, created_at, run_id FROM runs
          WHERE account_id = account AND held_for = 'limit'
          ORDER BY api_key_id, priority, created_at, run_id LIMIT 1)
        UNION ALL
        SELECT next.* FROM first_of_key AS previous, LATERAL (
            SELECT api_key_id, priority, created_at, run_id FROM runs
             WHERE account_id = account AND held_for = 'limit' AND api_key_id > previous.api_key_id
             ORDER BY api_key_id, priority, created_at, run_id LIMIT 1) AS next
    ), active AS (
        SELECT api_key_id, count(*) AS runs FROM runs
         WHERE account_id = account AND status IN ('queued', 'running') AND held_for IS NULL
         GROUP BY api_key_id
    )
    SELECT run_id FROM first_of_key LEFT JOIN active USING (api_key_id)
     WHERE NOT key_is_full(account, api_key_id, per_key)
     ORDER BY priority, coalesce(runs, 0), created_at, run_id LIMIT 1
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they do not know that a key may be restricted."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("accounts", sa.Column("suspended_at", sa.DateTime(timezone=True)))
    op.add_column("api_keys", sa.Column("expires_at", sa.DateTime(timezone=True)))
    op.add_column("api_keys", sa.Column("graphs", ARRAY(sa.Text()), comment="Patterns; null: all"))
    op.add_column("api_keys", sa.Column("models", ARRAY(sa.Text()), comment="Patterns; null: all"))
    comment = "Its own, and those of the keys that it was made with"
    op.add_column("api_keys", sa.Column("limits", JSONB(), comment=comment))
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.Column("via", sa.Text(), nullable=False, comment="http, command or server"),
        sa.Column("actor_key_id", sa.Uuid(), comment="Who has done it"),
        sa.Column("actor_account_id", sa.Uuid()),
        sa.Column("address", sa.Text(), comment="Of the client; of a command: its host"),
        sa.Column("request_id", sa.Text()),
        sa.Column("account_id", sa.Uuid(), nullable=False, comment="To which account it was done"),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False, comment="The id of what has changed"),
        sa.Column("before", JSONB(), comment="The old values of what has changed"),
        sa.Column("after", JSONB()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    op.create_index("ix_audit_entries_at_id", "audit_entries", ["at", "id"])
    op.create_index("ix_audit_entries_account_id_at_id", "audit_entries", ["account_id", "at", "id"])
    for statement in (_FINAL, _TRIGGER, _KEY_IS_FULL, _ADMISSION, _NEXT_HELD_RUN):
        op.execute(statement)
