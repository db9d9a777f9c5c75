"""price receipts by version: which price list, web searches, messages without a price; meters of runs."""

import sqlalchemy as sa
from alembic import op

revision: str = "7b1f0c52ae64"
down_revision: str | None = "c40e7d8a19f3"

_BASES = "basis IN ('final', 'partial', 'recovered', 'unpriced', 'adjustment')"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "charge_receipts",
        sa.Column("web_search_requests", sa.BigInteger(), nullable=False, server_default="0"),
    )
    op.add_column(
        "charge_receipts",
        sa.Column("price_version", sa.Text(), nullable=False, server_default="unknown"),
    )
    op.alter_column("charge_receipts", "web_search_requests", server_default=None)
    op.alter_column("charge_receipts", "price_version", server_default=None)
    op.drop_constraint(op.f("ck_charge_receipts_basis"), "charge_receipts")
    op.create_check_constraint(op.f("ck_charge_receipts_basis"), "charge_receipts", _BASES)
    op.create_index(
        "ix_charge_receipts_unpriced",
        "charge_receipts",
        ["id"],
        postgresql_where=sa.text("basis = 'unpriced'"),
    )
    op.add_column(
        "runs",
        sa.Column("meters", sa.JSON(none_as_null=True), nullable=True, comment="What the two meters saw"),
    )
