"""let runs end together: ends of an account's runs for which no run waits do not wait for each other."""

from alembic import op

revision: str = "5c9e27a4b183"
down_revision: str | None = "e5a0c1d97b34"
compatibility: str = "expand"

_WAITS_FOR_AN_END = """
CREATE FUNCTION waits_for_an_end(account uuid) RETURNS bool LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM runs WHERE account_id = account
                    AND (held_for IN ('limit', 'turn') OR held_for = 'start_time' AND start_after <= now()))
$$
"""
# What is accepted meanwhile waits for the lock, and then finds the run ended. If one that was accepted just
# before waits for an end, the caller repeats it with the lock for itself.
_RELEASE_TOGETHER = """
CREATE FUNCTION release_together(
    account uuid, conversation text, process uuid, per_account int, per_key int, offered_for interval
) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF waits_for_an_end(account) THEN
        RETURN release_runs(account, conversation, process, per_account, per_key, offered_for);
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('runtally.dispatch ' || account, 0));
    IF waits_for_an_end(account) THEN
        RAISE EXCEPTION 'a run waits for this end' USING ERRCODE = 'RT002';
    END IF;
    RETURN 0;
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they take the same lock for themselves."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_WAITS_FOR_AN_END)
    op.execute(_RELEASE_TOGETHER)
