"""validate the checks of the ledger: they allow more than those they have replaced."""

from alembic import op

revision: str = "c86e1a72d95b"
down_revision: str | None = "b3d58f0c41e7"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: rows are read, and none is locked."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name in ("kind", "sign", "expiry_has_grant"):
        op.execute(f"ALTER TABLE credit_ledger VALIDATE CONSTRAINT ck_credit_ledger_{name}")
