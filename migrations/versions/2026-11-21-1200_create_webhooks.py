"""create webhooks."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "d2f47b90c15e"
down_revision: str | None = "b7d2f4a90c15"

_EVENTS = (
    "events <@ ARRAY['run.completed', 'run.failed', 'receipt.created', 'budget.threshold'] "
    "AND cardinality(events) > 0"
)

_TIME = """
CREATE FUNCTION webhook_time(moment timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$
"""

# FOR KEY SHARE SKIP LOCKED: subscribed webhooks cannot be deleted meanwhile, and those being deleted are
# skipped. No receipt and no run may wait for a webhook, or fail because of one.
_RECEIPTS = """
CREATE FUNCTION webhooks_hear_of_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    charged constant uuid[] := ARRAY(SELECT DISTINCT account_id FROM added);
BEGIN
    IF NOT EXISTS (
        SELECT FROM webhooks WHERE account_id = ANY (charged) AND 'receipt.created' = ANY (events)
    ) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'receipt.created', json_build_object(
               'type', 'receipt.created',
               'timestamp', webhook_time(receipt.created_at),
               'data', json_build_object(
                   'id', receipt.id,
                   'sourceReference', receipt.source_reference,
                   'runId', receipt.run_id,
                   'attempt', receipt.attempt,
                   'usageUnitId', receipt.usage_unit_id,
                   'graphId', receipt.graph_id,
                   'model', receipt.model,
                   'inputTokens', receipt.input_tokens,
                   'outputTokens', receipt.output_tokens,
                   'cacheReadTokens', receipt.cache_read_tokens,
                   'cacheWrite5mTokens', receipt.cache_write_5m_tokens,
                   'cacheWrite1hTokens', receipt.cache_write_1h_tokens,
                   'webSearchRequests', receipt.web_search_requests,
                   'costUsd', receipt.cost_usd::numeric(20, 10)::text,
                   'chargedCredits', receipt.charged_credits,
                   'basis', receipt.basis,
                   'origin', receipt.origin,
                   'createdAt', webhook_time(receipt.created_at)))
      FROM added AS receipt JOIN webhooks AS webhook ON webhook.account_id = receipt.account_id
     WHERE webhook.account_id = ANY (charged)
       AND webhook.enabled AND 'receipt.created' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""

_RECEIPTS_TRIGGER = """
CREATE TRIGGER webhooks_hear_of_receipts
AFTER INSERT ON charge_receipts REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION webhooks_hear_of_receipts()
"""

# An answer may contain escapes that PostgreSQL cannot parse, such as U+0000. Every escape is replaced by a
# letter before the two short members are searched.
_RUNS = r"""
CREATE FUNCTION webhooks_hear_of_runs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told constant text := CASE NEW.status WHEN 'succeeded' THEN 'run.completed' ELSE 'run.failed' END;
    final json;
BEGIN
    IF NOT EXISTS (SELECT FROM webhooks WHERE account_id = NEW.account_id AND told = ANY (events)) THEN
        RETURN NULL;
    END IF;
    final := regexp_replace(NEW.final::text, '\\(u[0-9a-fA-F]{4}|.)', 'x', 'g');
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, told, json_build_object(
               'type', told,
               'timestamp', webhook_time(NEW.ended_at),
               'data', json_build_object(
                   'runId', NEW.run_id,
                   'graphId', NEW.graph_id,
                   'model', NEW.model,
                   'status', NEW.status,
                   'error', final ->> 'error',
                   'finishReason', final ->> 'finishReason',
                   'attempt', NEW.attempt,
                   'createdAt', webhook_time(NEW.created_at),
                   'endedAt', webhook_time(NEW.ended_at)))
      FROM webhooks AS webhook
     WHERE webhook.account_id = NEW.account_id AND webhook.enabled AND told = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""

_RUNS_TRIGGER = """
CREATE TRIGGER webhooks_hear_of_runs
AFTER UPDATE OF status ON runs FOR EACH ROW
WHEN (OLD.status IS DISTINCT FROM NEW.status AND NEW.status IN ('succeeded', 'failed', 'cancelled'))
EXECUTE FUNCTION webhooks_hear_of_runs()
"""

# Compared with the row before: a threshold that was reached before is not reported again. Numeric, because a
# hundred times the largest bigint is no bigint.
_BUDGETS = """
CREATE FUNCTION webhooks_hear_of_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    this_month constant date := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')::date;
    level bigint;
BEGIN
    IF NEW.granted + NEW.adjusted > OLD.granted + OLD.adjusted THEN
        INSERT INTO webhook_credit_levels AS held (account_id, level) VALUES (NEW.account_id, NEW.balance)
        ON CONFLICT (account_id) DO UPDATE SET level = excluded.level;
    END IF;
    IF NOT EXISTS (
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
                   'limit', bound.name,
                   'percent', percent,
                   'month', to_char(bound.month, 'YYYY-MM'),
                   'usedCredits', bound.used,
                   'limitCredits', bound.total,
                   'usedUsd', (bound.used / 10000000.0)::numeric(30, 10)::text,
                   'limitUsd', (bound.total / 10000000.0)::numeric(30, 10)::text))
      FROM webhooks AS webhook
     CROSS JOIN (
         SELECT 'monthly_budget' AS name, this_month AS month, '{50, 80, 100}'::int[] AS percents,
                NEW.monthly_budget AS total, NEW.month_spent AS used,
                OLD.monthly_budget AS total_before,
                CASE WHEN OLD.month = NEW.month THEN OLD.month_spent ELSE 0 END AS used_before
          WHERE NEW.month = this_month
         UNION ALL
         SELECT 'credit', NULL, '{80, 100}', level, level - NEW.balance,
                CASE WHEN OLD.mode = 'prepaid' THEN level END, level - OLD.balance
          WHERE NEW.mode = 'prepaid'
     ) AS bound
     CROSS JOIN LATERAL unnest(bound.percents) AS percent
     WHERE webhook.account_id = NEW.account_id AND bound.total > 0
       AND bound.used::numeric * 100 >= bound.total::numeric * percent
       AND (bound.used_before::numeric * 100 >= bound.total_before::numeric * percent) IS NOT TRUE
       AND webhook.enabled AND 'budget.threshold' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""

_BUDGETS_TRIGGER = """
CREATE TRIGGER webhooks_hear_of_budgets
AFTER UPDATE ON credit_accounts FOR EACH ROW
WHEN (NEW.monthly_budget IS NOT NULL OR NEW.mode = 'prepaid'
      OR NEW.granted + NEW.adjusted > OLD.granted + OLD.adjusted)
EXECUTE FUNCTION webhooks_hear_of_budgets()
"""


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    _create_webhooks()
    _create_deliveries()
    op.create_table(
        "webhook_credit_levels",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column(
            "level", sa.BigInteger(), nullable=False, comment="The balance after credit was last added"
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_webhook_credit_levels_account_id")
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_webhook_credit_levels")),
    )
    for statement in (
        _TIME,
        _RECEIPTS,
        _RECEIPTS_TRIGGER,
        _RUNS,
        _RUNS_TRIGGER,
        _BUDGETS,
        _BUDGETS_TRIGGER,
    ):
        op.execute(statement)


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("secret", sa.Text(), nullable=False, comment="As it is: deliveries are signed with it"),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "failing_since",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="The first failure after the last success",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(_EVENTS, name=op.f("ck_webhooks_events")),
        sa.CheckConstraint(
            "disabled_reason IN ('by_request', 'gone', 'failing')", name=op.f("ck_webhooks_disabled_reason")
        ),
        sa.CheckConstraint(
            "enabled = (disabled_at IS NULL) AND enabled = (disabled_reason IS NULL)",
            name=op.f("ck_webhooks_disabled"),
        ),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_webhooks_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_account_id"), "webhooks", ["account_id"])


def _create_deliveries() -> None:
    now = sa.text("clock_timestamp()")
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("webhook_id", sa.Uuid(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("payload", postgresql.JSON(), nullable=False),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "next_attempt_at",
            sa.DateTime(timezone=True),
            server_default=now,
            nullable=False,
            comment="While an attempt is under way: when it is given up for lost",
        ),
        sa.Column("last_status", sa.Integer(), nullable=True, comment="What the receiver answered"),
        sa.Column("last_error", sa.Text(), nullable=True, comment="Our own word for what went wrong"),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=now, nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'delivered', 'failed', 'cancelled')",
            name=op.f("ck_webhook_deliveries_status"),
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_webhook_deliveries_webhook_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index(
        "ix_webhook_deliveries_pending",
        "webhook_deliveries",
        ["webhook_id", "next_attempt_at"],
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_webhook_deliveries_newest",
        "webhook_deliveries",
        ["webhook_id", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
    )
