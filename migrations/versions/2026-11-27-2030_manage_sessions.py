"""keep what the runs of sessions of Managed Agents have."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSON

revision: str = "7c52e9a4d1b6"
down_revision: str | None = "b7c41e0d95a8"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they serve no such sessions."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    comment = "Of a session of Managed Agents: what its runs have"
    op.add_column("sessions", sa.Column("managed", JSON(), comment=comment))
    op.create_index(
        "ix_sessions_managed",
        "sessions",
        ["account_id", "created_at", "state_key"],
        postgresql_where=sa.text("managed IS NOT NULL"),
    )
