"""create browser sessions."""

import sqlalchemy as sa
from alembic import op

revision: str = "a41c7e20d93b"
down_revision: str | None = "f08a63d1b7c4"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "browser_sessions",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["api_key_id"],
            ["api_keys.id"],
            name=op.f("fk_browser_sessions_api_key_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_browser_sessions")),
    )
    op.create_index(op.f("ix_browser_sessions_api_key_id"), "browser_sessions", ["api_key_id"])
    op.create_index(op.f("ix_browser_sessions_expires_at"), "browser_sessions", ["expires_at"])
