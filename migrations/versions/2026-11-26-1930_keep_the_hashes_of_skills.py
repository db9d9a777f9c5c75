"""keep the hashes of skills: which instructions a run could read."""

import sqlalchemy as sa
from alembic import op

revision: str = "b4d81f0c6a27"
down_revision: str | None = "4d82c6f1e9b7"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they leave the column empty."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runs",
        sa.Column("skills", sa.JSON(), comment="The skills it could read, with their hashes"),
    )
