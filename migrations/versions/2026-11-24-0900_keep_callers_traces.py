"""keep the caller's trace: every process that executes a run continues it."""

import sqlalchemy as sa
from alembic import op

revision: str = "e7b1c5d20a94"
down_revision: str | None = "c4a90e62d185"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: their runs have no trace of a caller."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("runs", sa.Column("traceparent", sa.Text(), comment="The span that started it"))
    op.add_column("runs", sa.Column("tracestate", sa.Text(), comment="Of that span"))
