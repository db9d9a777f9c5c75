"""show bills to sql: views for dashboards, and which roles read which account there."""

from collections.abc import Mapping

import sqlalchemy as sa
from alembic import op

revision: str = "7c3e91d0b8a4"
down_revision: str | None = "7e2c94b1d06f"
compatibility: str = "expand"

# `session_user`: SET ROLE does not change it. An array, so that one account's rows are found by index.
_ACCOUNTS = """
CREATE VIEW billing_accounts WITH (security_barrier) AS
SELECT a.id, a.name FROM accounts AS a
 WHERE EXISTS (SELECT FROM billing_readers AS r
                WHERE r.role = session_user AND (r.account_id IS NULL OR r.account_id = a.id))
"""

_RECEIPTS = """
CREATE VIEW billing_receipts WITH (security_barrier) AS
SELECT r.id, r.account_id, a.name AS account, r.used_at, r.created_at, r.run_id, r.attempt,
       r.usage_unit_id AS message_id, r.graph_id, r.api_key_id, k.name AS api_key, r.executor_type,
       r.requested_model, r.model, r.input_tokens, r.output_tokens, r.cache_read_tokens,
       r.cache_write_5m_tokens, r.cache_write_1h_tokens, r.web_search_requests,
       web_fetches_of(r.basis, r.provider_usage) AS web_fetch_requests, r.cost_usd, r.charged_credits,
       r.charged_credits * 0.0000001 AS charged_usd, r.cache_savings_usd, r.cache_miss_usd, r.price_version,
       r.basis, r.output_estimated, r.origin, r.inference_geo, r.service_tier, r.speed, r.end_user, r.tags
  FROM charge_receipts AS r
  JOIN accounts AS a ON a.id = r.account_id
  JOIN api_keys AS k ON k.id = r.api_key_id
 WHERE r.account_id = ANY (ARRAY(SELECT id FROM billing_accounts))
"""

_USAGE_DAILY = """
CREATE VIEW billing_usage_daily WITH (security_barrier) AS
SELECT u.account_id, a.name AS account, u.day, u.model, u.graph_id, u.api_key_id, k.name AS api_key,
       u.receipts, u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_5m_tokens,
       u.cache_write_1h_tokens, u.web_search_requests, u.web_fetch_requests, u.cost_usd, u.charged_credits,
       u.charged_credits * 0.0000001 AS charged_usd, u.cache_savings_usd, u.cache_miss_usd
  FROM (
      SELECT account_id, (bucket AT TIME ZONE 'UTC')::date AS day, model, graph_id, api_key_id,
             sum(receipts)::bigint AS receipts, sum(input_tokens)::bigint AS input_tokens,
             sum(output_tokens)::bigint AS output_tokens,
             sum(cache_read_tokens)::bigint AS cache_read_tokens,
             sum(cache_write_5m_tokens)::bigint AS cache_write_5m_tokens,
             sum(cache_write_1h_tokens)::bigint AS cache_write_1h_tokens,
             sum(web_search_requests)::bigint AS web_search_requests,
             sum(web_fetch_requests)::bigint AS web_fetch_requests, sum(cost_usd) AS cost_usd,
             sum(charged_credits)::bigint AS charged_credits, sum(cache_savings_usd) AS cache_savings_usd,
             sum(cache_miss_usd) AS cache_miss_usd
        FROM usage_rollups WHERE account_id = ANY (ARRAY(SELECT id FROM billing_accounts))
       GROUP BY 1, 2, 3, 4, 5
  ) AS u
  JOIN accounts AS a ON a.id = u.account_id
  LEFT JOIN api_keys AS k ON k.id = u.api_key_id
"""

_LEDGER = """
CREATE VIEW billing_ledger WITH (security_barrier) AS
SELECT l.id, l.account_id, a.name AS account, l.created_at, l.used_at, l.kind, l.credits,
       l.credits * 0.0000001 AS usd, l.receipt_id, l.run_id, l.reference, l.note
  FROM credit_ledger AS l
  JOIN accounts AS a ON a.id = l.account_id
 WHERE l.account_id = ANY (ARRAY(SELECT id FROM billing_accounts))
"""

_SHARED = {
    "account_id": "The account that is charged",
    "account": "Its name",
    "graph_id": "The graph that was run",
    "api_key_id": "The API key that started the run",
    "api_key": "The label of the key",
    "model": "The model that answered",
    "input_tokens": "Tokens of the prompt that the cache did not have",
    "output_tokens": "Tokens of the answer",
    "cache_read_tokens": "Tokens of the prompt that were read from the cache",
    "cache_write_5m_tokens": "Tokens that were written to the cache for 5 minutes",
    "cache_write_1h_tokens": "Tokens that were written to the cache for 1 hour",
    "web_search_requests": "Searches of the web by the provider",
    "web_fetch_requests": "Pages fetched by the provider",
    "cost_usd": "Dollars at the prices of the provider, exact to ten decimals",
    "charged_credits": "What the account is charged: 10 000 000 credits are a dollar",
    "charged_usd": "The same in dollars, exact",
    "cache_savings_usd": "What cache reads saved against plain input",
    "cache_miss_usd": "What misses of the cache cost against cache reads",
}

_COMMENTS: Mapping[str, Mapping[str, str]] = {
    "billing_accounts": {"id": "The account", "name": "Its name"},
    "billing_receipts": {
        **_SHARED,
        "id": "The receipt",
        "used_at": "When the message began; decides price, day and month",
        "created_at": "When the receipt was stored",
        "run_id": "The run, unique in its account",
        "attempt": "Which attempt of the run, from 0",
        "message_id": "The message id of the provider",
        "executor_type": "claude_sdk or messages_api",
        "requested_model": "The model that was asked for",
        "price_version": "The price list that was used",
        "basis": "final, partial, recovered, unpriced, or adjustment: a correction of another receipt",
        "output_estimated": "Whether output_tokens are an estimate, of a message that was cut off",
        "origin": "assistant, subagent, or hidden: a call that no event reports",
        "inference_geo": "The region, as the provider reported it",
        "service_tier": "The service tier, as the provider reported it",
        "speed": "The speed, as the provider reported it",
        "end_user": "The person that the run was for, as its caller named them",
        "tags": "Names and values that the caller gave the run",
    },
    "billing_usage_daily": {
        **_SHARED,
        "day": "The day in UTC on which messages began",
        "receipts": "Messages; adjustments are not counted",
    },
    "billing_ledger": {
        "account_id": _SHARED["account_id"],
        "account": _SHARED["account"],
        "id": "The entry; later entries have higher numbers",
        "created_at": "When it was entered",
        "used_at": "Of a debit: when the message began",
        "kind": "grant, adjustment, debit, or reservation and release: credit that runs hold meanwhile",
        "credits": "What it adds to the account: 10 000 000 credits are a dollar",
        "usd": "The same in dollars, exact",
        "receipt_id": "Of a debit: its receipt",
        "run_id": "Of a debit, a reservation, a release: the run",
        "reference": "The idempotency key of a grant or an adjustment",
        "note": "The reason of a grant or an adjustment",
    },
}

_VIEWS = {
    "billing_accounts": "Accounts that this role reads",
    "billing_receipts": "One row per charged message, and one per correction; rows never change",
    "billing_usage_daily": "Sums of receipts by day, model, graph and API key",
    "billing_ledger": "Every change of an account's credit; rows never change",
}


def upgrade() -> None:
    """Apply while older servers may still run: they do not know the views."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "billing_readers",
        sa.Column("role", sa.Text(), nullable=False, comment="A role of the database"),
        sa.Column("account_id", sa.Uuid(), nullable=True, comment="What it reads; null: all accounts"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_billing_readers_account_id")),
        sa.PrimaryKeyConstraint("role", name=op.f("pk_billing_readers")),
    )
    for statement in (_ACCOUNTS, _RECEIPTS, _USAGE_DAILY, _LEDGER):
        op.execute(statement)
    for view, meaning in _VIEWS.items():
        op.execute(f"COMMENT ON VIEW {view} IS {_quoted(meaning)}")
        for column, column_meaning in _COMMENTS[view].items():
            op.execute(f"COMMENT ON COLUMN {view}.{column} IS {_quoted(column_meaning)}")


def _quoted(comment: str) -> str:
    doubled = comment.replace("'", "''").replace(":", "\\:")
    return f"'{doubled}'"
