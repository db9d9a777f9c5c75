"""keep the provider's usage object, the lines of the price, and the time of use; sum credits by month."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "5e0c94b7d163"
down_revision: str | None = "8b41d6e90c27"

_TEXTS = (
    "requested_model",
    "provider_request_id",
    "provider_organization_id",
    "provider_workspace_id",
    "inference_geo",
    "service_tier",
    "speed",
    "stop_reason",
)

_SUMS = (
    "receipts",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cost_usd",
    "charged_credits",
    "cache_savings_usd",
    "cache_miss_usd",
)

_ROLLUPS = f"""
CREATE OR REPLACE FUNCTION usage_rollups_follow_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_rollups AS held (
        account_id, bucket, model, graph_id, api_key_id, {", ".join(_SUMS)})
    SELECT account_id, date_bin('15 minutes', used_at, 'epoch'), model, graph_id, api_key_id,
           count(*) FILTER (WHERE basis <> 'adjustment'), {", ".join(f"sum({name})" for name in _SUMS[1:])}
      FROM added GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, bucket, model, graph_id, api_key_id) DO UPDATE SET
        {", ".join(f"{name} = held.{name} + excluded.{name}" for name in _SUMS)};
    RETURN NULL;
END
$$
"""  # noqa: S608 - constants

# A line is stored with its receipt, so that neither can be written without the other.
_LINES = """
CREATE VIEW receipt_lines AS
SELECT receipt.id AS receipt_id, receipt.account_id, receipt.used_at, line.position,
       line.value ->> 'part' AS part, line.value ->> 'kind' AS kind, line.value ->> 'model' AS model,
       (line.value ->> 'quantity')::numeric AS quantity,
       (line.value ->> 'unit_price_usd')::numeric AS unit_price_usd,
       (line.value ->> 'amount_usd')::numeric AS amount_usd
  FROM charge_receipts AS receipt
 CROSS JOIN LATERAL jsonb_array_elements(receipt.lines) WITH ORDINALITY AS line (value, position)
"""

_MONTHS = """
CREATE FUNCTION sum_by_key(one jsonb, other jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(key, total), '{}') FROM (
        SELECT key, sum(value::bigint) AS total
          FROM (SELECT * FROM jsonb_each_text(one) UNION ALL SELECT * FROM jsonb_each_text(other)) AS entry
         GROUP BY key
    ) AS summed
$$
"""

# All in the account's row, which is locked to decide on credit: a concurrent statement then reads it again.
_CREDIT = """
CREATE OR REPLACE FUNCTION credit_accounts_follow_the_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO credit_accounts AS held (account_id, granted, adjusted, spent, reserved, spent_by_month)
    SELECT entry.account_id,
           coalesce(sum(credits) FILTER (WHERE kind = 'grant'), 0),
           coalesce(sum(credits) FILTER (WHERE kind = 'adjustment'), 0),
           coalesce(-sum(credits) FILTER (WHERE kind = 'debit'), 0),
           coalesce(-sum(credits) FILTER (WHERE kind IN ('reservation', 'release')), 0),
           coalesce((
               SELECT jsonb_object_agg(month, spent) FROM (
                   SELECT to_char(coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM') AS month,
                          -sum(credits) AS spent
                     FROM added WHERE added.account_id = entry.account_id AND kind = 'debit' GROUP BY 1
               ) AS by_month
           ), '{}')
      FROM added AS entry GROUP BY entry.account_id ORDER BY entry.account_id
    ON CONFLICT (account_id) DO UPDATE SET
        granted = held.granted + excluded.granted,
        adjusted = held.adjusted + excluded.adjusted,
        spent = held.spent + excluded.spent,
        reserved = held.reserved + excluded.reserved,
        spent_by_month = CASE excluded.spent_by_month WHEN '{}' THEN held.spent_by_month
            ELSE sum_by_key(held.spent_by_month, excluded.spent_by_month) END;
    RETURN NULL;
END
$$
"""

_ONLY_THE_LEDGER = """
CREATE OR REPLACE FUNCTION credit_accounts_only_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR (
        pg_trigger_depth() < 2 AND (
            (TG_OP = 'INSERT' AND (NEW.granted, NEW.adjusted, NEW.spent, NEW.reserved, NEW.spent_by_month)
                IS DISTINCT FROM (0::bigint, 0::bigint, 0::bigint, 0::bigint, '{}'::jsonb))
            OR (TG_OP = 'UPDATE' AND (NEW.granted, NEW.adjusted, NEW.spent, NEW.reserved, NEW.spent_by_month)
                IS DISTINCT FROM (OLD.granted, OLD.adjusted, OLD.spent, OLD.reserved, OLD.spent_by_month))
        )
    ) THEN
        RAISE EXCEPTION 'credit_accounts: the sums follow credit_ledger and nothing else (%)', TG_OP
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$
"""

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

_SUM_OLD_MONTHS = """
UPDATE credit_accounts AS account SET spent_by_month = summed.months
  FROM (SELECT account_id, jsonb_object_agg(month, spent) AS months
          FROM (SELECT account_id, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month,
                       -sum(credits) AS spent
                  FROM credit_ledger WHERE kind = 'debit' GROUP BY 1, 2) AS by_month
         GROUP BY account_id) AS summed
 WHERE account.account_id = summed.account_id
"""


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    _extend_receipts()
    _sum_by_month()
    op.execute(_ROLLUPS)
    op.execute(_LINES)


def _extend_receipts() -> None:
    for name in _TEXTS:
        op.add_column("charge_receipts", sa.Column(name, sa.Text(), nullable=True))
    for name, default, comment in (
        ("provider_usage", "{}", "The provider's whole usage object"),
        ("lines", "[]", "What the cost consists of"),
        ("unpriced", "[]", "What has no known price"),
    ):
        op.add_column(
            "charge_receipts",
            sa.Column(name, JSONB(), nullable=False, server_default=default, comment=comment),
        )
    _add_cache_misses()
    op.add_column(
        "charge_receipts",
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True, comment="When the message began"),
    )
    # The only update ever: receipts from before have no better time than that of their delivery.
    op.execute("ALTER TABLE charge_receipts DISABLE TRIGGER charge_receipts_are_final")
    op.execute("UPDATE charge_receipts SET used_at = created_at")
    op.execute("ALTER TABLE charge_receipts ENABLE TRIGGER charge_receipts_are_final")
    op.alter_column("charge_receipts", "used_at", nullable=False, server_default=sa.text("clock_timestamp()"))
    newest: list[sa.ColumnElement[object]] = [
        sa.column("account_id"),
        sa.literal_column("used_at DESC"),
        sa.literal_column("id DESC"),
    ]
    for name, columns, where in (
        ("run", [sa.column(each) for each in ("account_id", "run_id", "used_at", "id")], None),
        ("newest", newest, None),
        (
            "unusual",
            newest,
            sa.text("basis <> 'final' OR origin <> 'assistant'"),
        ),
    ):
        op.drop_index(f"ix_charge_receipts_{name}", "charge_receipts")
        op.create_index(f"ix_charge_receipts_{name}", "charge_receipts", columns, postgresql_where=where)


def _add_cache_misses() -> None:
    op.add_column(
        "charge_receipts",
        sa.Column(
            "cache_miss", JSONB(), nullable=True, comment="What the provider should have found in its cache"
        ),
    )
    for table, digits, comment in (
        ("charge_receipts", 20, "What the miss cost against a cache read"),
        ("usage_rollups", 24, None),
    ):
        column = sa.Column(
            "cache_miss_usd", sa.Numeric(digits, 10), nullable=False, server_default="0", comment=comment
        )
        op.add_column(table, column)


def _sum_by_month() -> None:
    op.add_column(
        "credit_ledger",
        sa.Column(
            "used_at", sa.DateTime(timezone=True), nullable=True, comment="Of a debit: when the message began"
        ),
    )
    op.drop_constraint("ck_credit_ledger_sign", "credit_ledger")
    op.create_check_constraint(
        op.f("ck_credit_ledger_sign"),
        "credit_ledger",
        "CASE kind WHEN 'debit' THEN true WHEN 'reservation' THEN credits < 0 "
        "WHEN 'adjustment' THEN credits <> 0 ELSE credits > 0 END",
    )
    op.execute("ALTER TABLE credit_accounts DISABLE TRIGGER USER")
    op.add_column(
        "credit_accounts",
        sa.Column(
            "spent_by_month",
            JSONB(),
            nullable=False,
            server_default="{}",
            comment="Credits by calendar month (UTC), YYYY-MM",
        ),
    )
    op.execute(_SUM_OLD_MONTHS)
    op.drop_column("credit_accounts", "month")
    op.drop_column("credit_accounts", "month_spent")
    op.execute("ALTER TABLE credit_accounts ENABLE TRIGGER USER")
    for statement in (_MONTHS, _CREDIT, _ONLY_THE_LEDGER, _BUDGETS):
        op.execute(statement)
