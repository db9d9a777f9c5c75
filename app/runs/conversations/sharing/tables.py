"""The table of share links."""

import sqlalchemy as sa

from app.platform.db import UtcDateTime, metadata

conversation_shares = sa.Table(
    "conversation_shares",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("token_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("account_id", sa.Uuid, nullable=False),
    sa.Column("state_key", sa.Text, nullable=False),
    sa.Column("last_run", sa.Text, nullable=False, comment="The last one that it shows"),
    sa.Column("with_tool_calls", sa.Boolean, nullable=False),
    sa.Column("api_key_id", sa.Uuid, sa.ForeignKey("api_keys.id"), nullable=False, comment="Who has made it"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
)

sa.Index(
    "ix_conversation_shares_conversation", conversation_shares.c.account_id, conversation_shares.c.state_key
)
