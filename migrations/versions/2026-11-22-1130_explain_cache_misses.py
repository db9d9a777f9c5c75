"""explain misses of the provider's cache on receipts, sum their cost; the last prompt of a conversation."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "a3c71f5d08e2"
down_revision: str | None = "5e0c94b7d163"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

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


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
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
    op.create_table(
        "session_prompts",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("prompt", JSONB(), nullable=False, comment="The last prompt, as hashes of its parts"),
        sa.ForeignKeyConstraint(
            ["account_id", "state_key"],
            ["sessions.account_id", "sessions.state_key"],
            name=op.f("fk_session_prompts_account_id_sessions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "state_key", name=op.f("pk_session_prompts")),
    )
    op.execute(_ROLLUPS)
