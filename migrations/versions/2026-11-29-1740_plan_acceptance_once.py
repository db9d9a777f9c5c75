"""plan acceptance once: PostgreSQL keeps a plan where one for the values at hand would not be cheaper.

Without a number it expects 1000 rows of a function, so that the statement which accepts a run seemed to cost
so much that planning it anew for each run seemed to be worth it.
"""

from alembic import op

revision: str = "8d3f60b1c2e7"
down_revision: str | None = "5c9e27a4b183"
compatibility: str = "expand"

_ONE_ROW = ("usable_key", "admission", "turn_begins_with")

# As before, but what is known of an account is not a part of the condition: with values that leave parts of it
# out, it was planned for each run.
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
    """Apply while older servers may still run: functions and what they return stay the same."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name in _ONE_ROW:
        op.execute(f"ALTER FUNCTION {name} ROWS 1")
    op.execute(_RESERVE_AT_ONCE)
