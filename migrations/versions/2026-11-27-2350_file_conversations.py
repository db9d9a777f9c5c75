"""rename, pin and archive conversations."""

import sqlalchemy as sa
from alembic import op

revision: str = "f4a1c07e5d32"
down_revision: str | None = "b7d2f40c9a61"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they list all conversations, whether archived or not."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name in ("pinned", "archived"):
        column: sa.Column[bool] = sa.Column(
            name, sa.Boolean(), nullable=False, server_default=sa.text("false")
        )
        op.add_column("sessions", column)
    op.execute("COMMENT ON COLUMN sessions.title IS 'How its first question begins, until it is renamed'")
    op.create_index(
        "ix_sessions_pinned",
        "sessions",
        ["account_id", sa.text("updated_at DESC"), sa.text("state_key DESC")],
        postgresql_where=sa.text("pinned"),
    )
