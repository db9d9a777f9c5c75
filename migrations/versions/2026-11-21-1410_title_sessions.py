"""title sessions."""

import sqlalchemy as sa
from alembic import op

revision: str = "c58e1f06b2d7"
down_revision: str | None = "a41c7e20d93b"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "sessions", sa.Column("title", sa.Text(), nullable=True, comment="How its first question begins")
    )
