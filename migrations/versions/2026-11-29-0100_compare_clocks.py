"""compare clocks: a takeover fences messages by the clock of the process that had begun them."""

import sqlalchemy as sa
from alembic import op

revision: str = "a7d4e0916b3c"
down_revision: str | None = "f6a92d3b81c5"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: theirs count as equal to the database's clock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table in ("workers", "run_takeovers"):
        comment = "How far the clock of the process is ahead of the database's"
        op.add_column(
            table, sa.Column("clock_ahead_s", sa.Double, nullable=False, server_default="0", comment=comment)
        )
