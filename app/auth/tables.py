"""Accounts, API keys and browser sessions."""

from sqlalchemy import Column, ForeignKey, Index, LargeBinary, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.platform.db import UtcDateTime, metadata

accounts = Table(
    "accounts",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("provider_profile_id", Text, comment="The provider's user profile"),
    Column("suspended_at", UtcDateTime),
    Column("retention", JSONB, comment="Days by kind; null or missing: as by default"),
)
Index("uq_accounts_provider_profile_id", accounts.c.provider_profile_id, unique=True)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("name", Text),
    Column("prefix", Text, nullable=False, comment="The first characters, to tell keys apart"),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Column("graphs", ARRAY(Text), comment="Patterns; null: all"),
    Column("models", ARRAY(Text), comment="Patterns; null: all"),
    Column("limits", JSONB, comment="Its own, and those of the keys that it was made with"),
    Column("labels", JSONB, comment="Of its runs; null: as requests say"),
    Column("counts_for", Uuid, comment="The key for whose budgets it counts as well"),
)

browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False, index=True),
    Column("person", JSONB, comment="Who has signed in; null: a key"),
    Column("sign_in", LargeBinary, comment="Hash; of one use"),
)
Index("uq_browser_sessions_sign_in", browser_sessions.c.sign_in, unique=True)
