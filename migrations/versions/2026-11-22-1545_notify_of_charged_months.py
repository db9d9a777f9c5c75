"""notify of budgets by the month that was charged, not by the database's clock."""

from collections.abc import Sequence

from alembic import op

revision: str = "7b2f9d10c6e8"
down_revision: str | None = "91d7c2e64fb0"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# The month of the clock only counts when the terms change: then nothing is charged that would name one.
_BUDGETS = """
CREATE OR REPLACE FUNCTION webhooks_hear_of_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    this_month constant text := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM');
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
                   'month', bound.month,
                   'usedCredits', bound.used,
                   'limitCredits', bound.total,
                   'usedUsd', (bound.used / 10000000.0)::numeric(30, 10)::text,
                   'limitUsd', (bound.total / 10000000.0)::numeric(30, 10)::text))
      FROM webhooks AS webhook
     CROSS JOIN (
         SELECT 'monthly_budget' AS name, spent.key AS month, '{50, 80, 100}'::int[] AS percents,
                NEW.monthly_budget AS total,
                spent.value::bigint AS used,
                OLD.monthly_budget AS total_before,
                coalesce((OLD.spent_by_month ->> spent.key)::bigint, 0) AS used_before
           FROM jsonb_each_text(NEW.spent_by_month) AS spent
          WHERE spent.key = this_month OR spent.value IS DISTINCT FROM OLD.spent_by_month ->> spent.key
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


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_BUDGETS)
