"""validate the check of a receipt's executor, which allows more than the one before: all rows meet it."""

from alembic import op

revision: str = "c07a4de81b35"
down_revision: str | None = "5b1e0c93d7fa"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: rows are read, and none is locked."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE charge_receipts VALIDATE CONSTRAINT ck_charge_receipts_executor_type")
