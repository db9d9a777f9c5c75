"""count what runs that wait keep; find calls that wait in the order in which they are listed."""

import sqlalchemy as sa
from alembic import op

revision: str = "5d1e8a70c3f9"
down_revision: str | None = "5d0c8b17f3a2"
compatibility: str = "expand"

_SIZE = "octet_length(request::text) + coalesce(octet_length(answer::text), 0)"
_STATE = "coalesce(octet_length({row}.parked::text), 0)"

# For each row: most statements that change calls change those of runs without any.
_FOLLOW_A_CALL = """
CREATE FUNCTION storage_follows_a_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storage_changes (owner, bytes)
    VALUES (coalesce(new.account_id, old.account_id)::text, coalesce(new.bytes, 0) - coalesce(old.bytes, 0));
    RETURN NULL;
END
$$
"""
_CALL_TRIGGER = """
CREATE TRIGGER storage_follows_{name} AFTER {operation} ON run_waits
FOR EACH ROW EXECUTE FUNCTION storage_follows_a_call()
"""
_OPERATIONS = {"insert": "INSERT", "update": "UPDATE OF answer", "delete": "DELETE"}

# Not in the generated column of `runs`: all its rows would be written anew.
_FOLLOW_A_STATE = f"""
CREATE FUNCTION storage_follows_a_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storage_changes (owner, bytes)
    VALUES (new.account_id::text, {_STATE.format(row="new")} - {_STATE.format(row="old")});
    RETURN NULL;
END
$$
"""  # noqa: S608 - a constant
_STATE_TRIGGER = """
CREATE TRIGGER storage_follows_parking AFTER UPDATE OF parked ON runs
FOR EACH ROW WHEN (old.parked IS NOT NULL OR new.parked IS NOT NULL)
EXECUTE FUNCTION storage_follows_a_state()
"""

_COUNT_CALLS = """
INSERT INTO storage_changes (owner, bytes) SELECT account_id::text, sum(bytes) FROM run_waits GROUP BY 1
"""
# Each part has an index: the lock of the trigger is not held while all runs are read.
_COUNT_STATES = """
INSERT INTO storage_changes (owner, bytes)
SELECT account_id::text, sum(octet_length(parked::text)) FROM runs
 WHERE parked IS NOT NULL
   AND (status = 'waiting' OR status IN ('queued', 'running') AND held_for IS NULL OR held_for IS NOT NULL)
 GROUP BY 1
"""


def upgrade() -> None:
    """Apply while older servers may still run: what they write is counted as well."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("run_waits", sa.Column("bytes", sa.BigInteger(), sa.Computed(_SIZE, persisted=True)))
    op.execute(_FOLLOW_A_CALL)
    for name, operation in _OPERATIONS.items():
        op.execute(_CALL_TRIGGER.format(name=name, operation=operation))
    op.execute(_FOLLOW_A_STATE)
    op.execute(_STATE_TRIGGER)
    op.execute(_COUNT_CALLS)
    op.execute(_COUNT_STATES)
    op.execute(
        "CREATE INDEX ix_run_waits_newest ON run_waits (account_id, requested_at) WHERE resolved_by IS NULL"
    )
    op.execute("DROP INDEX ix_run_waits_open")
    op.execute(
        "CREATE INDEX ix_runs_waiting_stopped ON runs (account_id)"
        " WHERE status = 'waiting' AND interruption IS NOT NULL"
    )
