"""show where runs execute: the processes of earlier attempts, and the CLI processes of workers."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "d8a3f16b40e7"
down_revision: str | None = "d9c3e5a17f40"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: their rows have neither."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    agents = "Its CLI processes by state; null: it starts none"
    op.add_column("workers", sa.Column("agents", postgresql.JSON, comment=agents))
    process = "The process that had executed it"
    op.add_column("run_takeovers", sa.Column("process_id", sa.Uuid, comment=process))
