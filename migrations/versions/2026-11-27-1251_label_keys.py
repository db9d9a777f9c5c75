"""label the runs of keys."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "e3a95c2b6d18"
down_revision: str | None = "8d41f0b7a92e"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they do not label the runs of keys."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("api_keys", sa.Column("labels", JSONB(), comment="Of its runs; null: as requests say"))
