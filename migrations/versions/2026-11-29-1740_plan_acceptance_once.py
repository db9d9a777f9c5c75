"""plan acceptance once, and read few rows for it: what it costs does not grow with what was accepted before.

Without a number PostgreSQL expects 1000 rows of a function, so that the statement which accepts a run seemed
to cost so much that planning it anew for each run seemed to be worth it.
"""

from alembic import op

revision: str = "8d3f60b1c2e7"
down_revision: str | None = "5c9e27a4b183"
compatibility: str = "expand"

_ONE_ROW = ("admission", "turn_begins_with")

# Each run makes four changes, and each acceptance sums them. What another transaction compacts is skipped.
_STORED_BYTES = """
CREATE FUNCTION stored_bytes(of_owner text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    total bigint;
    changes bigint;
BEGIN
    SELECT coalesce(sum(bytes), 0), count(*) INTO total, changes FROM storage_changes WHERE owner = of_owner;
    IF changes > 100 THEN
        WITH taken AS (
            DELETE FROM storage_changes WHERE id IN (
                   SELECT id FROM storage_changes WHERE owner = of_owner LIMIT 100000 FOR UPDATE SKIP LOCKED)
            RETURNING bytes
        )
        INSERT INTO storage_changes (owner, bytes) SELECT of_owner, sum(bytes) FROM taken HAVING count(*) > 0;
    END IF;
    RETURN total;
END
$$
"""
# The key, if it may start a run whose request has so many bytes, and no budget has to be asked. It is not
# revoked, nor its account suspended, before the transaction ends.
_USABLE_KEY = """
CREATE OR REPLACE FUNCTION usable_key(
    account uuid, key uuid, size bigint, max_stored bigint
) RETURNS SETOF uuid LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM FROM api_keys JOIN accounts ON accounts.id = api_keys.account_id
      WHERE api_keys.id = key AND api_keys.revoked_at IS NULL AND accounts.suspended_at IS NULL
        AND (api_keys.expires_at IS NULL OR api_keys.expires_at > now())
        FOR SHARE;
    IF FOUND
        AND (max_stored IS NULL OR max_stored >= size + stored_bytes(account::text))
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
# query sees what was committed before it: the later ones, after a wait for the account's row. Whether a grant
# is due is asked by itself: where the account has no credit, one condition of all was planned for each run.
_RESERVE_AT_ONCE = """
CREATE OR REPLACE FUNCTION reserve_at_once(
    account uuid, run text, requested bigint, at timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    available bigint;
    is_due bool := FALSE;
BEGIN
    SELECT balance - reserved INTO available FROM credit_accounts
     WHERE account_id = account AND mode = 'prepaid' FOR UPDATE;
    IF available IS NOT NULL THEN
        is_due := EXISTS (
            SELECT FROM credit_ledger AS due
             WHERE due.account_id = account AND due.expires_at <= at AND NOT EXISTS (
                   SELECT FROM credit_ledger AS expiry WHERE expiry.grant_id = due.id));
    END IF;
    IF run IS NULL OR available < 1 OR is_due OR EXISTS (SELECT FROM budgets WHERE account_id = account) THEN
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


def upgrade() -> None:
    """Apply while older servers may still run: what their functions return stays the same."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name in _ONE_ROW:
        op.execute(f"ALTER FUNCTION {name} ROWS 1")
    for statement in (_STORED_BYTES, _USABLE_KEY, _RESERVE_AT_ONCE):
        op.execute(statement)
