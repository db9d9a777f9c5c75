"""limit spending of accounts, keys, end users, tags and graphs by budgets."""

import sqlalchemy as sa
from alembic import op

revision: str = "c41f7d9be026"
down_revision: str | None = "7c3e91d0b8a4"
compatibility: str = "expand"

# For which values of a budget's scope a run or receipt counts; that of an account is empty.
_VALUES = """
CREATE FUNCTION budget_values(
    scope text, match text, api_key_id uuid, graph_id text, end_user text, tags jsonb
) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS $$
    SELECT value FROM (
        SELECT CASE scope WHEN 'account' THEN '' WHEN 'key' THEN api_key_id::text
                          WHEN 'graph' THEN graph_id WHEN 'endUser' THEN end_user END AS value
        UNION ALL
        SELECT tag.key || '=' || tag.value FROM jsonb_each_text(tags) AS tag WHERE scope = 'tag'
    ) AS counted
     WHERE value IS NOT NULL AND (match IS NULL OR value = match)
$$
"""

# Where the clock goes back at midnight, a day begins at the first of both midnights.
_BEGINNING = """
CREATE FUNCTION beginning_of(place timestamp, time_zone text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN (at - interval '1 hour') AT TIME ZONE time_zone >= place
                THEN at - interval '1 hour' ELSE at END
      FROM (SELECT place AT TIME ZONE time_zone AS at) AS usual
$$
"""

_WINDOW = """
CREATE FUNCTION budget_window(
    kind text, time_zone text, at timestamptz, OUT starts_at timestamptz, OUT resets_at timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT CASE kind WHEN 'total' THEN 'epoch' WHEN 'hour' THEN hour ELSE beginning_of(place, time_zone) END,
           CASE kind WHEN 'hour' THEN hour + interval '1 hour'
                     WHEN 'day' THEN beginning_of(place + interval '1 day', time_zone)
                     WHEN 'month' THEN beginning_of(place + interval '1 month', time_zone) END
      FROM (SELECT date_trunc('hour', at, time_zone) AS hour,
                   date_trunc(CASE kind WHEN 'month' THEN 'month' ELSE 'day' END,
                              at AT TIME ZONE time_zone) AS place) AS local
$$
"""

# The account's row is locked by then: the trigger that keeps it has an earlier name. So a budget that is set
# meanwhile has either counted these receipts itself, or is found here.
_FOLLOW = """
CREATE FUNCTION spending_follows_the_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    debited constant uuid[] := ARRAY(SELECT DISTINCT account_id FROM added WHERE kind = 'debit');
BEGIN
    IF NOT EXISTS (SELECT FROM budgets WHERE account_id = ANY (debited)) THEN
        RETURN NULL;
    END IF;
    INSERT INTO budget_spending AS held (account_id, budget_id, value, starts_at, credits, tokens)
    SELECT budget.account_id, budget.id, value, counted.starts_at, sum(receipt.charged_credits),
           sum(receipt.input_tokens + receipt.output_tokens + receipt.cache_read_tokens
               + receipt.cache_write_5m_tokens + receipt.cache_write_1h_tokens)
      FROM added
      JOIN charge_receipts AS receipt ON receipt.id = added.receipt_id
      JOIN budgets AS budget ON budget.account_id = receipt.account_id
     CROSS JOIN LATERAL budget_values(budget.scope, budget.match, receipt.api_key_id, receipt.graph_id,
                                      receipt.end_user, receipt.tags) AS value
     CROSS JOIN LATERAL budget_window(budget.window, budget.time_zone, receipt.used_at) AS counted
     GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (account_id, budget_id, value, starts_at) DO UPDATE SET
        credits = held.credits + excluded.credits, tokens = held.tokens + excluded.tokens;
    RETURN NULL;
END
$$
"""

_FOLLOW_TRIGGER = """
CREATE TRIGGER spending_follows_the_ledger
AFTER INSERT ON credit_ledger REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION spending_follows_the_ledger()
"""

# Once for each window: what has reached its limit is marked, with or without a webhook.
_REACHED = """
CREATE FUNCTION notify_of_reached_budget() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    budget budgets%ROWTYPE;
    reached constant timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO budget FROM budgets WHERE account_id = NEW.account_id AND id = NEW.budget_id;
    IF NOT coalesce(NEW.credits >= budget.credits, NEW.tokens >= budget.tokens) THEN
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

_REACHED_TRIGGER = """
CREATE TRIGGER notify_of_reached_budget AFTER INSERT OR UPDATE ON budget_spending
FOR EACH ROW WHEN (NEW.reached_at IS NULL) EXECUTE FUNCTION notify_of_reached_budget()
"""

# Late receipts of earlier windows are rare and decide nothing: two months are more than enough.
_FORGET = """
CREATE FUNCTION forget_past_spending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM budget_spending
     WHERE account_id = NEW.account_id AND budget_id = NEW.budget_id AND value = NEW.value
       AND starts_at < NEW.starts_at - interval '2 months';
    RETURN NULL;
END
$$
"""

_FORGET_TRIGGER = """
CREATE TRIGGER forget_past_spending AFTER INSERT ON budget_spending
FOR EACH ROW EXECUTE FUNCTION forget_past_spending()
"""

# As before, for credit alone: what is spent of budgets has an event of its own.
_THRESHOLDS = """
CREATE OR REPLACE FUNCTION webhooks_hear_of_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    level bigint;
BEGIN
    IF NEW.granted + NEW.adjusted > OLD.granted + OLD.adjusted THEN
        INSERT INTO webhook_credit_levels AS held (account_id, level) VALUES (NEW.account_id, NEW.balance)
        ON CONFLICT (account_id) DO UPDATE SET level = excluded.level;
    END IF;
    IF NEW.mode <> 'prepaid' OR NOT EXISTS (
        SELECT FROM webhooks WHERE account_id = NEW.account_id AND 'budget.threshold' = ANY (events)
    ) THEN
        RETURN NULL;
    END IF;
    level := coalesce(
        (SELECT held.level FROM webhook_credit_levels AS held WHERE held.account_id = NEW.account_id),
        NEW.granted + NEW.adjusted);
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'budget.threshold', json_build_object(
               'type', 'budget.threshold',
               'timestamp', webhook_time(clock_timestamp()),
               'data', json_build_object(
                   'limit', 'credit',
                   'percent', percent,
                   'usedCredits', level - NEW.balance,
                   'limitCredits', level,
                   'usedUsd', ((level - NEW.balance) / 10000000.0)::numeric(30, 10)::text,
                   'limitUsd', (level / 10000000.0)::numeric(30, 10)::text))
      FROM webhooks AS webhook
     CROSS JOIN LATERAL unnest('{80, 100}'::int[]) AS percent
     WHERE webhook.account_id = NEW.account_id AND level > 0
       AND (level - NEW.balance)::numeric * 100 >= level::numeric * percent
       AND (OLD.mode = 'prepaid'
            AND (level - OLD.balance)::numeric * 100 >= level::numeric * percent) IS NOT TRUE
       AND webhook.enabled AND 'budget.threshold' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""

_MONTHLY = """
INSERT INTO budgets (account_id, id, scope, "window", credits, mode, time_zone, is_operators)
SELECT account_id, 'monthly', 'account', 'month', monthly_budget, 'hard', 'UTC', true
  FROM credit_accounts WHERE monthly_budget IS NOT NULL
"""
_MONTHLY_SPENDING = """
INSERT INTO budget_spending (account_id, budget_id, value, starts_at, credits, tokens)
SELECT used.account_id, 'monthly', '', counted.starts_at, sum(used.charged_credits),
       sum(used.input_tokens + used.output_tokens + used.cache_read_tokens
           + used.cache_write_5m_tokens + used.cache_write_1h_tokens)
  FROM budgets JOIN usage_rollups AS used USING (account_id)
 CROSS JOIN LATERAL budget_window('month', 'UTC', now()) AS counted
 WHERE used.bucket >= counted.starts_at
 GROUP BY 1, 4
"""


def upgrade() -> None:
    """Apply while older servers may still run: they enforce the monthly budgets that they know of."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "budgets",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False, comment="account, key, graph, endUser or tag"),
        sa.Column("match", sa.Text(), comment="One value of the scope; null: each of them by itself"),
        sa.Column("window", sa.Text(), nullable=False, comment="hour, day, month or total"),
        sa.Column("credits", sa.BigInteger(), comment="Null: it limits tokens"),
        sa.Column("tokens", sa.BigInteger()),
        sa.Column("mode", sa.Text(), nullable=False, comment="hard: calls are refused; soft: reported"),
        sa.Column("time_zone", sa.Text(), nullable=False),
        sa.Column("is_operators", sa.Boolean(), nullable=False, comment="Only admin may change it"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.CheckConstraint("(credits IS NULL) <> (tokens IS NULL)", name=op.f("ck_budgets_one_limit")),
        sa.PrimaryKeyConstraint("account_id", "id", name=op.f("pk_budgets")),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_budgets_account_id_accounts")),
    )
    op.create_table(
        "budget_spending",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False, comment="Of the scope; empty for the account"),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False, comment="Of the window"),
        sa.Column("credits", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column(
            "reached_at", sa.DateTime(timezone=True), comment="When it was found to have reached the limit"
        ),
        sa.PrimaryKeyConstraint(
            "account_id", "budget_id", "value", "starts_at", name=op.f("pk_budget_spending")
        ),
        sa.ForeignKeyConstraint(
            ["account_id", "budget_id"],
            ["budgets.account_id", "budgets.id"],
            ondelete="CASCADE",
            name=op.f("fk_budget_spending_account_id_budgets"),
        ),
    )
    op.create_table(
        "budget_holds",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=False, comment="What its calls may cost at most"),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "run_id", name=op.f("pk_budget_holds")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_budget_holds_account_id_accounts")
        ),
    )
    for statement in (
        *(_VALUES, _BEGINNING, _WINDOW, _FOLLOW, _FOLLOW_TRIGGER, _THRESHOLDS),
        *(_MONTHLY, _MONTHLY_SPENDING),
        *(_REACHED, _REACHED_TRIGGER, _FORGET, _FORGET_TRIGGER),
    ):
        op.execute(statement)
