"""store runs at once: functions for what took several statements."""

from alembic import op

revision: str = "c1a7e0d35b92"
down_revision: str | None = "e3a61f0c84d7"
compatibility: str = "expand"

# Returns what was reserved. Each statement sees what was committed before it, so that of two concurrent calls
# one waits at the account's row, and then finds nothing to release.
_RELEASE_CREDIT = """
CREATE FUNCTION release_credit(account uuid, run text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    reserved bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM credit_ledger WHERE account_id = account AND run_id = run
                                               AND kind IN ('reservation', 'release')) THEN
        RETURN 0;
    END IF;
    PERFORM FROM credit_accounts WHERE account_id = account FOR UPDATE;
    reserved := (SELECT -sum(credits) FROM credit_ledger WHERE account_id = account AND run_id = run
                                                           AND kind IN ('reservation', 'release'));
    DELETE FROM budget_holds WHERE account_id = account AND run_id = run;
    IF reserved > 0 THEN
        INSERT INTO credit_ledger (account_id, kind, credits, run_id, created_at)
        VALUES (account, 'release', reserved, run, clock_timestamp());
    END IF;
    RETURN reserved;
END
$$
"""

# What `admission` decides about a run that nothing else prevents, and for which no credit is needed; no row
# for any other. Whoever revokes the key, or suspends the account, waits until the transaction ends.
_UNLIMITED_ADMISSION = """
CREATE FUNCTION unlimited_admission(
    size bigint, max_stored bigint, account uuid, key uuid, conversation text, at_turn int,
    starts_after timestamptz, starts_at_once bool, per_account int, per_key int, max_waiting int,
    process uuid, kept_for interval
) RETURNS TABLE (
    held_for text, rank int, queued_position int, is_started bool, offered_to uuid, full_at int
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM api_keys JOIN accounts ON accounts.id = api_keys.account_id
      WHERE api_keys.id = key AND api_keys.revoked_at IS NULL AND accounts.suspended_at IS NULL
        AND (api_keys.expires_at IS NULL OR api_keys.expires_at > now())
        FOR SHARE;
    IF NOT FOUND
        OR max_stored < size + (SELECT coalesce(sum(bytes), 0) FROM storage_changes
                                 WHERE owner = account::text)
        OR EXISTS (SELECT FROM credit_accounts WHERE account_id = account
                    AND (mode = 'prepaid' OR EXISTS (SELECT FROM budgets WHERE account_id = account))) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM admission(account, key, conversation, at_turn, starts_after, starts_at_once,
                                         per_account, per_key, max_waiting, process, kept_for);
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they do the same with several statements."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_RELEASE_CREDIT)
    op.execute(_UNLIMITED_ADMISSION)
