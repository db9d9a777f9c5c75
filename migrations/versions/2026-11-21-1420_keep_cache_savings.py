"""store cache savings with receipts and rollups; indexes for queries of dashboards."""

import sqlalchemy as sa
from alembic import op

revision: str = "3d9a70b4e1c8"
down_revision: str | None = "c58e1f06b2d7"

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
)

_FOLLOW = f"""
CREATE OR REPLACE FUNCTION usage_rollups_follow_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_rollups AS held (
        account_id, bucket, model, graph_id, api_key_id, {", ".join(_SUMS)})
    SELECT account_id, date_bin('15 minutes', created_at, 'epoch'), model, graph_id, api_key_id,
           count(*) FILTER (WHERE basis <> 'adjustment'), {", ".join(f"sum({name})" for name in _SUMS[1:])}
      FROM added GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, bucket, model, graph_id, api_key_id) DO UPDATE SET
        {", ".join(f"{name} = held.{name} + excluded.{name}" for name in _SUMS)};
    RETURN NULL;
END
$$
"""  # noqa: S608 - constants


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    # The default stays: an older server inserts receipts without it, and existing rows have none.
    op.add_column(
        "charge_receipts",
        sa.Column(
            "cache_savings_usd",
            sa.Numeric(20, 10),
            nullable=False,
            server_default="0",
            comment="What cache reads saved against plain input",
        ),
    )
    op.add_column(
        "usage_rollups",
        sa.Column("cache_savings_usd", sa.Numeric(24, 10), nullable=False, server_default="0"),
    )
    op.execute(_FOLLOW)
    op.create_index(
        "ix_charge_receipts_unusual",
        "charge_receipts",
        ["account_id", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        postgresql_where=sa.text("basis <> 'final' OR origin <> 'assistant'"),
    )
    op.create_index(
        "ix_runs_drifted",
        "runs",
        ["account_id", sa.literal_column("ended_at DESC"), sa.literal_column("run_id DESC")],
        postgresql_where=sa.text("(meters ->> 'drift')::int > 0"),
    )
