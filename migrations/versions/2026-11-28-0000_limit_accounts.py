"""limit what accounts keep, and notify of budgets that refuse calls."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "d2a7c1e0f4b8"
down_revision: str | None = "f4b2d18f6e43"
compatibility: str = "expand"


# As before, and also when a hard budget refuses a call that needs more than is left.
_REACHED = """
CREATE OR REPLACE FUNCTION notify_of_reached_budget() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    budget budgets%ROWTYPE;
    reached constant timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO budget FROM budgets WHERE account_id = NEW.account_id AND id = NEW.budget_id;
    IF NEW.refused_at IS NULL
       AND NOT coalesce(NEW.credits >= budget.credits, NEW.tokens >= budget.tokens) THEN
        RETURN NULL;
    END IF;
    UPDATE budget_spending SET reached_at = reached
     WHERE account_id = NEW.account_id AND budget_id = NEW.budget_id
       AND value = NEW.value AND starts_at = NEW.starts_at;
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'budget.reached', json_build_object(
               'type', 'budget.reached',
               'timestamp', webhook_time(reached),
               'data', json_build_object(
                   'budget', budget.id,
                   'scope', budget.scope,
                   'value', nullif(NEW.value, ''),
                   'mode', budget.mode,
                   'usd', (budget.credits / 10000000.0)::numeric(30, 10)::text,
                   'tokens', budget.tokens,
                   'spentUsd', (NEW.credits / 10000000.0)::numeric(30, 10)::text,
                   'spentTokens', NEW.tokens,
                   'resetsAt', (SELECT webhook_time(resets_at)
                                  FROM budget_window(budget.window, budget.time_zone, NEW.starts_at))))
      FROM webhooks AS webhook
     WHERE webhook.account_id = NEW.account_id AND webhook.enabled
       AND 'budget.reached' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""


# As before, with the terms of grants at the end.
_LEDGER = """
CREATE OR REPLACE VIEW billing_ledger WITH (security_barrier) AS
SELECT l.id, l.account_id, a.name AS account, l.created_at, l.used_at, l.kind, l.credits,
       l.credits * 0.0000001 AS usd, l.receipt_id, l.run_id, l.reference, l.note,
       l.expires_at, CASE WHEN l.kind = 'grant' THEN coalesce(l.priority, 0) END AS priority, l.grant_id,
       CASE WHEN l.kind = 'grant' THEN credit_left(l.id, (
           SELECT jsonb_agg(to_jsonb(entry) ORDER BY entry.id NULLS LAST) FROM (
               SELECT e.id, e.kind, e.credits, e.balance, e.expires_at, e.priority, e.grant_id
                 FROM credit_ledger AS e
                WHERE e.account_id = l.account_id AND e.kind IN ('grant', 'adjustment', 'expiry')
                  AND e.balance IS NOT NULL
                UNION ALL
               SELECT NULL, 'now', 0, c.balance, NULL, NULL, NULL
                 FROM credit_accounts AS c WHERE c.account_id = l.account_id) AS entry
       )) * 0.0000001 END AS left_usd
  FROM credit_ledger AS l
  JOIN accounts AS a ON a.id = l.account_id
 WHERE l.account_id = ANY (ARRAY(SELECT id FROM billing_accounts))
"""

# As `GrantRests` in app/billing/credit/expiry/records.py: what was spent between two entries follows from
# their balances. It reads no table, so that roles which read the view need no right to any.
_LEFT = """
CREATE FUNCTION credit_left(wanted bigint, entries jsonb) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    -- In the order in which they are spent; 0 is credit without a grant.
    grants constant bigint[] := ARRAY(
        SELECT id FROM (
            SELECT 0 AS id, 0 AS priority, 'infinity'::timestamptz AS expires_at
            UNION ALL
            SELECT (each ->> 'id')::bigint, coalesce((each ->> 'priority')::int, 0),
                   coalesce((each ->> 'expires_at')::timestamptz, 'infinity')
              FROM jsonb_array_elements(entries) AS each WHERE each ->> 'kind' = 'grant') AS known
         ORDER BY priority, expires_at, id);
    other constant int := array_position(grants, 0::bigint);
    rests bigint[] := array_fill(0::bigint, ARRAY[cardinality(grants)]);
    debt bigint := 0;
    entry jsonb;
    change bigint;
    part bigint;
    place int;
BEGIN
    FOR entry IN SELECT each FROM jsonb_array_elements(entries) AS each LOOP
        FOR phase IN 0 .. 1 LOOP
            place := array_position(grants, (entry ->> CASE entry ->> 'kind' WHEN 'expiry'
                                             THEN 'grant_id' ELSE 'id' END)::bigint);
            change := (entry ->> 'balance')::bigint - (1 - phase) * (entry ->> 'credits')::bigint
                    - (SELECT sum(each) FROM unnest(rests) AS each) + debt;
            IF phase = 1 AND entry ->> 'kind' = 'expiry' THEN
                change := change + rests[place];
                rests[place] := 0;
            END IF;
            IF change >= 0 THEN
                IF phase = 0 OR entry ->> 'kind' <> 'grant' THEN
                    place := other;
                END IF;
                part := least(debt, change);
                debt := debt - part;
                rests[place] := rests[place] + change - part;
                CONTINUE;
            END IF;
            FOR place IN 1 .. cardinality(grants) LOOP
                part := least(rests[place], -change);
                rests[place] := rests[place] - part;
                change := change + part;
            END LOOP;
            debt := debt - change;
        END LOOP;
    END LOOP;
    RETURN rests[array_position(grants, wanted)];
END
$$
"""

_COLUMNS = {
    "expires_at": "Of a grant: when what is left of it expires",
    "priority": "Of a grant: a lower one is spent first",
    "grant_id": "Of an expiry: the entry of its grant",
    "left_usd": "Of a grant: the dollars that are left of it; null: made before grants had terms",
}


def upgrade() -> None:
    """Apply while older servers may still run: they keep everything as by default."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    comment = "Days by kind; null or missing: as by default"
    op.add_column("accounts", sa.Column("retention", JSONB(), comment=comment))
    # A sweep reads only what it deletes, also of one account.
    for part in ("contents", "events"):
        has_some = f"{part}_deleted_at IS NULL AND ended_at IS NOT NULL"
        op.create_index(
            f"ix_runs_of_account_with_{part}",
            "runs",
            ["account_id", "ended_at"],
            postgresql_where=sa.text(has_some),
        )
    op.create_index(
        "ix_run_evidence_first",
        "run_evidence",
        ["account_id", "at"],
        postgresql_where=sa.text("position % 1000000 = 1"),
    )
    comment = "When a call needed more than was left"
    op.add_column("budget_spending", sa.Column("refused_at", sa.DateTime(timezone=True), comment=comment))
    op.execute(_REACHED)
    op.execute(_LEFT)
    op.execute(_LEDGER)
    for column, meaning in _COLUMNS.items():
        op.execute(f"COMMENT ON COLUMN billing_ledger.{column} IS '{meaning.replace(':', chr(92) + ':')}'")
