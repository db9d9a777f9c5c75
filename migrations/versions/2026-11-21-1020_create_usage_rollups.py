"""create usage rollups."""

import sqlalchemy as sa
from alembic import op

revision: str = "a5c8e0417d93"
down_revision: str | None = "e19d35c7f208"

_SUM = """
    SELECT account_id, date_bin('15 minutes', created_at, 'epoch'), model, graph_id, api_key_id,
           count(*) FILTER (WHERE basis <> 'adjustment'),
           sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
           sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(cost_usd), sum(charged_credits)
      FROM {source} GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
"""

_INSERT = """
    INSERT INTO usage_rollups AS held (
        account_id, bucket, model, graph_id, api_key_id, receipts,
        input_tokens, output_tokens, cache_read_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, cost_usd, charged_credits)
"""

# In the receipts' own transaction, so that sums and rows can never differ.
_FOLLOW = f"""
CREATE FUNCTION usage_rollups_follow_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {_INSERT} {_SUM.format(source="added")}
    ON CONFLICT (account_id, bucket, model, graph_id, api_key_id) DO UPDATE SET
        receipts = held.receipts + excluded.receipts,
        input_tokens = held.input_tokens + excluded.input_tokens,
        output_tokens = held.output_tokens + excluded.output_tokens,
        cache_read_tokens = held.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_5m_tokens = held.cache_write_5m_tokens + excluded.cache_write_5m_tokens,
        cache_write_1h_tokens = held.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        cost_usd = held.cost_usd + excluded.cost_usd,
        charged_credits = held.charged_credits + excluded.charged_credits;
    RETURN NULL;
END
$$
"""

_FOLLOW_TRIGGER = """
CREATE TRIGGER usage_rollups_follow_receipts
AFTER INSERT ON charge_receipts REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION usage_rollups_follow_receipts()
"""


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "usage_rollups",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of 15 minutes"),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("receipts", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_5m_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_1h_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Numeric(24, 10), nullable=False),
        sa.Column("charged_credits", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_usage_rollups_account_id")),
        sa.PrimaryKeyConstraint(
            "account_id", "bucket", "model", "graph_id", "api_key_id", name=op.f("pk_usage_rollups")
        ),
    )
    op.execute(f"{_INSERT} {_SUM.format(source='charge_receipts')}")
    op.execute(_FOLLOW)
    op.execute(_FOLLOW_TRIGGER)
