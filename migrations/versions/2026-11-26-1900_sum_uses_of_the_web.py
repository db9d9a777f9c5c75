"""sum uses of the web: searches and fetched pages, in the rollups of usage."""

import sqlalchemy as sa
from alembic import op

revision: str = "4d82c6f1e9b7"
down_revision: str | None = "b47d0c9e51fa"
compatibility: str = "expand"

_NEW = ("web_search_requests", "web_fetch_requests")
_COLUMNS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cost_usd",
    "charged_credits",
    "cache_savings_usd",
    "cache_miss_usd",
    "web_search_requests",
)
_SUMS = ("receipts", *_COLUMNS, "web_fetch_requests")

# Receipts have it in the provider's usage object only, and an adjustment repeats that of its receipt.
_FETCHES = """
CREATE FUNCTION web_fetches_of(basis text, usage jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN basis <> 'adjustment'
                 AND usage #>> '{server_tool_use,web_fetch_requests}' ~ '^[0-9]{1,9}$'
                THEN (usage #>> '{server_tool_use,web_fetch_requests}')::bigint ELSE 0 END
$$
"""

_ROLLUPS = f"""
CREATE OR REPLACE FUNCTION usage_rollups_follow_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_rollups AS held (
        account_id, bucket, model, graph_id, api_key_id, {", ".join(_SUMS)})
    SELECT account_id, date_bin('15 minutes', used_at, 'epoch'), model, graph_id, api_key_id,
           count(*) FILTER (WHERE basis <> 'adjustment'), {", ".join(f"sum({name})" for name in _COLUMNS)},
           sum(web_fetches_of(basis, provider_usage))
      FROM added GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, bucket, model, graph_id, api_key_id) DO UPDATE SET
        {", ".join(f"{name} = held.{name} + excluded.{name}" for name in _SUMS)};
    RETURN NULL;
END
$$
"""  # noqa: S608 - constants


def upgrade() -> None:
    """Apply while older servers may still run: no run of theirs has used the web."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name in _NEW:
        op.add_column("usage_rollups", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.execute(_FETCHES)
    op.execute(_ROLLUPS)
