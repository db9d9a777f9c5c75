"""index cache misses: the few receipts that have a cause are summed up by it."""

import sqlalchemy as sa
from alembic import op

revision: str = "f6a92d3b81c5"
down_revision: str | None = "e1b7d25c9a03"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    # No receipt is stored while it is made, which takes seconds for millions.
    op.create_index(
        "ix_charge_receipts_cache_miss",
        "charge_receipts",
        ["account_id", sa.text("used_at DESC"), sa.text("id DESC")],
        postgresql_where=sa.text("cache_miss ->> 'cause' IS NOT NULL"),
    )
