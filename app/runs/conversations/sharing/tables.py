"""The table of share links."""

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    Text,
    Uuid,
)

from app.platform.db import UtcDateTime, metadata

conversation_shares = Table(
    "conversation_shares",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("token_hash", LargeBinary, nullable=False, unique=True),
    Column("account_id", Uuid, nullable=False),
    Column("state_key", Text, nullable=False),
    Column("last_run", Text, nullable=False, comment="The last one that it shows"),
    Column("with_tool_calls", Boolean, nullable=False),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False, comment="Who has made it"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
)

Index(
    "ix_conversation_shares_conversation", conversation_shares.c.account_id, conversation_shares.c.state_key
)
