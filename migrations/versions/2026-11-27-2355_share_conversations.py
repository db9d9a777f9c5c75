"""share conversations by links."""

import sqlalchemy as sa
from alembic import op

revision: str = "f4b2d18f6e43"
down_revision: str | None = "f4a1c07e5d32"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they know no links, and deletions end those all the same."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "conversation_shares",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("last_run", sa.Text(), nullable=False, comment="The last one that it shows"),
        sa.Column("with_tool_calls", sa.Boolean(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False, comment="Who has made it"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id", "state_key"],
            ["sessions.account_id", "sessions.state_key"],
            name=op.f("fk_conversation_shares_account_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["api_key_id"], ["api_keys.id"], name=op.f("fk_conversation_shares_api_key_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversation_shares")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_conversation_shares_token_hash")),
    )
    op.create_index("ix_conversation_shares_conversation", "conversation_shares", ["account_id", "state_key"])
