"""accept runs with budgets and limits of tokens at once, and those whose credit is held by others."""

from collections.abc import Sequence

from alembic import op

revision: str = "f4c81a6e27d3"
down_revision: str | None = "e1b7d25c9a03"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None
compatibility: str = "expand"

# The key, if it may start a run whose request has so many bytes, and the account's credit is not spent. It is
# not revoked, nor its account suspended, before the transaction ends.
_USABLE_KEY = """
CREATE OR REPLACE FUNCTION usable_key(account uuid, key uuid, size bigint, max_stored bigint)
RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM api_keys JOIN accounts ON accounts.id = api_keys.account_id
      WHERE api_keys.id = key AND api_keys.revoked_at IS NULL AND accounts.suspended_at IS NULL
        AND (api_keys.expires_at IS NULL OR api_keys.expires_at > now())
        FOR SHARE;
    IF FOUND
        AND (max_stored IS NULL OR max_stored >= size + (
             SELECT coalesce(sum(bytes), 0) FROM storage_changes WHERE owner = account::text))
        AND NOT EXISTS (SELECT FROM credit_accounts
                         WHERE account_id = account AND mode = 'prepaid' AND balance < 1) THEN
        RETURN NEXT key;
    END IF;
END
$$
"""

# What is held for runs that count for a value of a budget, without one of them.
_HELD = """
CREATE FUNCTION held_of_budget(account uuid, scope text, value text, without text)
RETURNS TABLE (credits bigint, tokens bigint) LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(hold.credits), 0)::bigint, coalesce(sum(hold.tokens), 0)::bigint
      FROM budget_holds AS hold
      LEFT JOIN runs AS holder USING (account_id, run_id)
     WHERE hold.account_id = $1 AND hold.run_id <> $4 AND $3 IS NOT NULL AND EXISTS (
           SELECT FROM budget_values($2, $3, holder.api_key_id, holder.graph_id,
                                     holder.end_user, holder.tags))
$$
"""

# What budgets leave to a run, by what it counts for. What other runs hold is not left.
_LEFT = """
CREATE FUNCTION budgets_left(account uuid, run text, at timestamptz)
RETURNS TABLE (id text, mode text, is_whole bool, value text, starts_at timestamptz, resets_at timestamptz,
               credits bigint, tokens bigint, held_credits bigint, held_tokens bigint)
LANGUAGE sql STABLE AS $$
    SELECT budget.id, budget.mode, budget.scope = 'account', counted.value, current.starts_at,
           current.resets_at, budget.credits - coalesce(spent.credits, 0) - held.credits,
           budget.tokens - coalesce(spent.tokens, 0) - held.tokens, held.credits, held.tokens
      FROM budgets AS budget
      LEFT JOIN runs ON runs.account_id = budget.account_id AND runs.run_id = $2
     CROSS JOIN LATERAL budget_window(budget.window, budget.time_zone, $3) AS current
     CROSS JOIN LATERAL budget_values(budget.scope, budget.match, runs.api_key_id, runs.graph_id,
                                      runs.end_user, runs.tags) AS counted (value)
      LEFT JOIN budget_spending AS spent
        ON spent.account_id = budget.account_id AND spent.budget_id = budget.id
       AND spent.value = counted.value AND spent.starts_at = current.starts_at
     CROSS JOIN LATERAL held_of_budget(budget.account_id, budget.scope, counted.value, $2) AS held
     WHERE budget.account_id = $1
$$
"""

# Until all of these keys, each with those made with it, have used fewer tokens in a minute than they may: the
# newest receipt with which those since it reach a limit has to be a minute old. Messages that take longer
# than ten minutes are not found: receipts are indexed by their beginning.
_TOKENS = """
CREATE FUNCTION seconds_until_tokens(account uuid, keys uuid[], most bigint[]) RETURNS double precision
LANGUAGE sql STABLE AS $$
    WITH limited AS (
        SELECT * FROM unnest($2, $3) AS each (key, most)
    ), used AS (
        SELECT limited.most, receipt.created_at,
               sum(receipt.input_tokens + receipt.output_tokens + receipt.cache_read_tokens
                   + receipt.cache_write_5m_tokens + receipt.cache_write_1h_tokens)
                   OVER (PARTITION BY limited.key ORDER BY receipt.created_at DESC, receipt.id DESC) AS tokens
          FROM limited
          JOIN api_keys AS sharing
            ON sharing.account_id = $1
           AND sharing.limits @> jsonb_build_array(jsonb_build_object('of', limited.key))
          JOIN charge_receipts AS receipt
            ON receipt.account_id = $1 AND receipt.api_key_id = sharing.id
           AND receipt.used_at > now() - interval '10 minutes'
           AND receipt.created_at > now() - interval '1 minute' AND receipt.basis <> 'adjustment'
    )
    SELECT coalesce(extract(epoch FROM max(created_at) + interval '1 minute' - now()), 0)::double precision
      FROM used WHERE used.tokens >= used.most
$$
"""

# What was reserved for a run; null: nothing limits what its account spends. Nothing of the whole statement is
# stored (RT002) if there is no run, the credit or a budget is spent, enough of a budget is held by other
# runs, a grant has expired and is still counted, or a key has used its tokens. Each query sees what was
# committed before it, and the run: the later ones, after a wait for the account's row. Credit that only
# other runs hold is waited for by the calls.
_RESERVE = """
CREATE FUNCTION reserve_within_limits(
    account uuid, run text, requested bigint, at timestamptz, keys uuid[], most bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    unspent bigint;
    available bigint;
    is_locked bool;
    has_budgets bool;
    amount bigint := requested;
BEGIN
    SELECT CASE mode WHEN 'prepaid' THEN balance END, balance - reserved INTO unspent, available
      FROM credit_accounts WHERE account_id = account
       AND (mode = 'prepaid' OR EXISTS (SELECT FROM budgets WHERE account_id = account))
       FOR UPDATE OF credit_accounts;
    is_locked := FOUND;
    has_budgets := EXISTS (SELECT FROM budgets WHERE account_id = account);
    IF run IS NULL OR unspent < 1 OR (has_budgets AND NOT is_locked)
        OR (unspent IS NOT NULL AND EXISTS (
            SELECT FROM credit_ledger AS due
             WHERE due.account_id = account AND due.expires_at <= at AND NOT EXISTS (
                   SELECT FROM credit_ledger AS expiry WHERE expiry.grant_id = due.id)))
        OR (has_budgets AND EXISTS (
            SELECT FROM budgets_left(account, run, at) AS budget
             WHERE CASE WHEN budget.credits IS NULL THEN budget.tokens ELSE budget.credits END < 1))
        OR (keys <> '{}' AND seconds_until_tokens(account, keys, most) > 0) THEN
        RAISE EXCEPTION 'this run cannot be stored at once' USING ERRCODE = 'RT002';
    END IF;
    IF unspent IS NULL AND NOT has_budgets THEN
        RETURN NULL;
    END IF;
    IF unspent IS NOT NULL AND available < 1 THEN
        amount := 1;
    END IF;
    INSERT INTO credit_ledger (account_id, kind, credits, run_id, created_at)
    VALUES (account, 'reservation', -amount, run, clock_timestamp());
    IF has_budgets THEN
        INSERT INTO budget_holds (account_id, run_id, credits, tokens) VALUES (account, run, amount, 0);
    END IF;
    RETURN amount;
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they use `reserve_at_once`, which refuses all of these."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for function in (_USABLE_KEY, _HELD, _LEFT, _TOKENS, _RESERVE):
        op.execute(function)
