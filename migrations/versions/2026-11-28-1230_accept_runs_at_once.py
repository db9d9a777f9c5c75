"""accept runs at once: also those of conversations, and of prepaid accounts."""

from alembic import op

revision: str = "e2b7c40d915a"
down_revision: str | None = "d8a3f16b40e7"
compatibility: str = "expand"

# The key, if it may start a run whose request has so many bytes, and no budget has to be asked. It is not
# revoked, nor its account suspended, before the transaction ends.
_USABLE_KEY = """
CREATE FUNCTION usable_key(account uuid, key uuid, size bigint, max_stored bigint) RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM api_keys JOIN accounts ON accounts.id = api_keys.account_id
      WHERE api_keys.id = key AND api_keys.revoked_at IS NULL AND accounts.suspended_at IS NULL
        AND (api_keys.expires_at IS NULL OR api_keys.expires_at > now())
        FOR SHARE;
    IF FOUND
        AND (max_stored IS NULL OR max_stored >= size + (
             SELECT coalesce(sum(bytes), 0) FROM storage_changes WHERE owner = account::text))
        AND NOT EXISTS (SELECT FROM credit_accounts WHERE account_id = account
                         AND mode = 'prepaid' AND balance - reserved < 1)
        AND NOT EXISTS (SELECT FROM budgets WHERE account_id = account) THEN
        RETURN NEXT key;
    END IF;
END
$$
"""

# What was reserved for a run; null: its account has no limit. Nothing of the whole statement is stored
# (RT002) if there is no run, no credit, a budget, or a grant that has expired and is still counted. Each
# query sees what was committed before it: the later ones, after a wait for the account's row.
_RESERVE_AT_ONCE = """
CREATE FUNCTION reserve_at_once(account uuid, run text, requested bigint, at timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    available bigint;
BEGIN
    SELECT balance - reserved INTO available FROM credit_accounts
     WHERE account_id = account AND mode = 'prepaid' FOR UPDATE;
    IF run IS NULL OR available < 1 OR EXISTS (SELECT FROM budgets WHERE account_id = account)
        OR (available IS NOT NULL AND EXISTS (
            SELECT FROM credit_ledger AS due
             WHERE due.account_id = account AND due.expires_at <= at AND NOT EXISTS (
                   SELECT FROM credit_ledger AS expiry WHERE expiry.grant_id = due.id))) THEN
        RAISE EXCEPTION 'this run cannot be stored at once' USING ERRCODE = 'RT002';
    END IF;
    IF available IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO credit_ledger (account_id, kind, credits, run_id, created_at)
    VALUES (account, 'reservation', -requested, run, clock_timestamp());
    RETURN requested;
END
$$
"""

# What a turn begins with that starts when it is accepted: no run before it has still to end.
_BEGINNING_OF_TURN = """
CREATE FUNCTION beginning_of_turn(account uuid, conversation text, session uuid, at_turn int)
RETURNS TABLE (has_called bool, lines bigint, bytes bigint, last_position bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT
        coalesce((SELECT coalesce((meters ->> 'sdk')::int, 0) + coalesce((meters ->> 'gateway')::int, 0) > 0
                    FROM runs WHERE runs.account_id = account AND runs.state_key = conversation
                                AND runs.session_id = session AND runs.turn < at_turn
                   ORDER BY runs.turn DESC LIMIT 1), false),
        count(*), coalesce(sum(line.bytes), 0)::bigint, coalesce(max(line.position), 0)
        FROM session_entries AS line
       WHERE line.project_key = account::text AND line.session_id = session::text AND line.subpath = '';
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they use `unlimited_admission`, or several statements."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_USABLE_KEY)
    op.execute(_RESERVE_AT_ONCE)
    op.execute(_BEGINNING_OF_TURN)
