"""conversations have an executor."""

import sqlalchemy as sa
from alembic import op

revision: str = "5e0c83b1d7a4"
down_revision: str | None = "3f5a0b9d71c4"


def upgrade() -> None:
    """Apply."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "sessions",
        sa.Column(
            "executor",
            sa.Text,
            nullable=False,
            # All that exist, and those of older servers that are still running.
            server_default="claude_agents",
            comment="Who writes it: the first half of graph ids",
        ),
    )
