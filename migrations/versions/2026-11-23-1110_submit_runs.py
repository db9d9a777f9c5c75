"""submit runs: when a ready run was submitted to a dispatcher outside the database."""

import sqlalchemy as sa
from alembic import op

revision: str = "8d41e6b7f230"
down_revision: str | None = "5e0b94c7d2f3"


def upgrade() -> None:
    """Apply at any time: older servers do not use the column."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runs",
        sa.Column(
            "submitted_at", sa.DateTime(timezone=True), comment="When it was last submitted to Temporal"
        ),
    )
