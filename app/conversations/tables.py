"""Tables of conversations and of their transcripts, one row per line."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.platform.db import Json, UtcDateTime, metadata

sessions = Table(
    "sessions",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("state_key", Text, primary_key=True),
    Column("session_id", Uuid, nullable=False, comment="What the SDK calls it"),
    Column("title", Text, comment="How its first question begins, until it is renamed"),
    Column(
        "executor",
        Text,
        nullable=False,
        server_default="claude_agents",
        comment="Who writes it: the first half of graph ids; empty until its first run decides",
    ),
    Column("turns", Integer, nullable=False, comment="How many runs it has been given"),
    Column("forked_from", Text, comment="The state key it was forked from"),
    Column("forked_at", Text, comment="The last run it has in common with that one"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column(
        "managed",
        Json(none_as_null=True),
        comment="Of a session of Managed Agents: what its runs have",
    ),
    Column("deployment_id", Text, comment="Of a session of Managed Agents: the deployment that began it"),
    Column(
        "opening",
        Json(none_as_null=True),
        comment="Of a conversation that a client has created: what it was given before its first run",
    ),
    Column("pinned", Boolean, nullable=False, server_default=text("false")),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
)

Index("ix_sessions_newest", sessions.c.account_id, sessions.c.updated_at.desc(), sessions.c.state_key.desc())

Index(
    "ix_sessions_pinned",
    sessions.c.account_id,
    sessions.c.updated_at.desc(),
    sessions.c.state_key.desc(),
    postgresql_where=sessions.c.pinned,
)

Index("ix_sessions_updated_at", sessions.c.updated_at)

Index(
    "ix_sessions_managed",
    sessions.c.account_id,
    sessions.c.created_at,
    sessions.c.state_key,
    postgresql_where=sessions.c.managed.is_not(None),
)

session_prompts = Table(
    "session_prompts",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("state_key", Text, primary_key=True),
    Column("prompt", JSONB, nullable=False, comment="The last prompt, as hashes of its parts"),
    ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
)

conversation_branches = Table(
    "conversation_branches",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("session_id", Uuid, primary_key=True, comment="Names its transcript"),
    Column("state_key", Text, nullable=False),
    Column("is_forked", Boolean, nullable=False, comment="Whether it is not the first branch"),
    Column("forked_from_run", Text, comment="The last run in common with another branch, if any"),
    Column("created_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
)
"""The branches of conversations that have several; `sessions.session_id` is the current one."""

Index(
    "ix_conversation_branches_conversation",
    conversation_branches.c.account_id,
    conversation_branches.c.state_key,
)

permission_grants = Table(
    "permission_grants",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, nullable=False),
    Column("state_key", Text, nullable=False),
    Column("graph_id", Text, nullable=False),
    Column("tool_id", Text, nullable=False),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False, comment="Who has given it"),
    Column("created_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
    UniqueConstraint("account_id", "state_key", "graph_id", "tool_id", name="uq_permission_grants_tool"),
)
"""The tools that runs of a conversation call without asking a person."""

session_entries = Table(
    "session_entries",
    metadata,
    Column("position", BigInteger, Identity(always=True), primary_key=True),
    Column("project_key", Text, nullable=False, comment="The account's id, for sessions of runs"),
    Column("session_id", Text, nullable=False),
    Column("subpath", Text, nullable=False, comment="Empty for the main transcript"),
    Column("entry_uuid", Text, comment="The entry's own id: the same entry twice is one"),
    Column("run_id", Text, comment="The run that said it"),
    Column("attempt", Integer, comment="The attempt that wrote it; null for a copy"),
    Column("entry", Json, nullable=False),
    Column("objects", ARRAY(Text), comment="The SHA-256 of its strings that are stored outside"),
    Column("bytes", BigInteger, Computed("octet_length(entry::text)")),
    Column("written_at", UtcDateTime, nullable=False, server_default=text("now()")),
    UniqueConstraint("project_key", "session_id", "subpath", "entry_uuid", name="uq_session_entries_entry"),
)

Index(
    "ix_session_entries_runs",
    session_entries.c.project_key,
    session_entries.c.session_id,
    session_entries.c.subpath,
    session_entries.c.run_id,
    session_entries.c.position,
)

Index(
    "ix_session_entries_objects",
    session_entries.c.objects,
    postgresql_using="gin",
    postgresql_where=text("objects IS NOT NULL"),
)
