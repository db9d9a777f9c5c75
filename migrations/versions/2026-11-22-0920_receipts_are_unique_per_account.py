"""receipts are unique per account, and may have a note."""

import sqlalchemy as sa
from alembic import op

revision: str = "b2f4d81c6e07"
down_revision: str | None = "7be2904ad1f6"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock.

    They name the constraint when they insert, so its name stays.
    """
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_constraint("uq_charge_receipts_source", "charge_receipts")
    op.create_unique_constraint(
        "uq_charge_receipts_source", "charge_receipts", ["account_id", "source_system", "source_reference"]
    )
    op.add_column(
        "charge_receipts",
        sa.Column("note", sa.Text(), nullable=True, comment="What is unusual about the message"),
    )
