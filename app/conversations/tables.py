"""Tables of conversations and of their transcripts, one row per line."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.platform.db import Json, UtcDateTime, metadata

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("state_key", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Uuid, nullable=False, comment="What the SDK calls it"),
    sa.Column("title", sa.Text, comment="How its first question begins, until it is renamed"),
    sa.Column(
        "executor",
        sa.Text,
        nullable=False,
        server_default="claude_agents",
        comment="Who writes it: the first half of graph ids; empty until its first run decides",
    ),
    sa.Column("turns", sa.Integer, nullable=False, comment="How many runs it has been given"),
    sa.Column("forked_from", sa.Text, comment="The state key it was forked from"),
    sa.Column("forked_at", sa.Text, comment="The last run it has in common with that one"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column(
        "managed",
        Json(none_as_null=True),
        comment="Of a session of Managed Agents: what its runs have",
    ),
    sa.Column(
        "deployment_id", sa.Text, comment="Of a session of Managed Agents: the deployment that began it"
    ),
    sa.Column(
        "opening",
        Json(none_as_null=True),
        comment="Of a conversation that a client has created: what it was given before its first run",
    ),
    sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("archived", sa.Boolean, nullable=False, server_default=sa.text("false")),
)

sa.Index(
    "ix_sessions_newest", sessions.c.account_id, sessions.c.updated_at.desc(), sessions.c.state_key.desc()
)

sa.Index(
    "ix_sessions_pinned",
    sessions.c.account_id,
    sessions.c.updated_at.desc(),
    sessions.c.state_key.desc(),
    postgresql_where=sessions.c.pinned,
)

sa.Index("ix_sessions_updated_at", sessions.c.updated_at)

sa.Index(
    "ix_sessions_managed",
    sessions.c.account_id,
    sessions.c.created_at,
    sessions.c.state_key,
    postgresql_where=sessions.c.managed.is_not(None),
)

session_prompts = sa.Table(
    "session_prompts",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("state_key", sa.Text, primary_key=True),
    sa.Column("prompt", JSONB, nullable=False, comment="The last prompt, as hashes of its parts"),
    sa.ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
)

conversation_branches = sa.Table(
    "conversation_branches",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("session_id", sa.Uuid, primary_key=True, comment="Names its transcript"),
    sa.Column("state_key", sa.Text, nullable=False),
    sa.Column("is_forked", sa.Boolean, nullable=False, comment="Whether it is not the first branch"),
    sa.Column("forked_from_run", sa.Text, comment="The last run in common with another branch, if any"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
)
"""The branches of conversations that have several; `sessions.session_id` is the current one."""

sa.Index(
    "ix_conversation_branches_conversation",
    conversation_branches.c.account_id,
    conversation_branches.c.state_key,
)

permission_grants = sa.Table(
    "permission_grants",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("account_id", sa.Uuid, nullable=False),
    sa.Column("state_key", sa.Text, nullable=False),
    sa.Column("graph_id", sa.Text, nullable=False),
    sa.Column("tool_id", sa.Text, nullable=False),
    sa.Column(
        "api_key_id", sa.Uuid, sa.ForeignKey("api_keys.id"), nullable=False, comment="Who has given it"
    ),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.ForeignKeyConstraint(
        ["account_id", "state_key"], ["sessions.account_id", "sessions.state_key"], ondelete="CASCADE"
    ),
    sa.UniqueConstraint("account_id", "state_key", "graph_id", "tool_id", name="uq_permission_grants_tool"),
)
"""The tools that runs of a conversation call without asking a person."""

session_entries = sa.Table(
    "session_entries",
    metadata,
    sa.Column("position", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("project_key", sa.Text, nullable=False, comment="The account's id, for sessions of runs"),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("subpath", sa.Text, nullable=False, comment="Empty for the main transcript"),
    sa.Column("entry_uuid", sa.Text, comment="The entry's own id: the same entry twice is one"),
    sa.Column("run_id", sa.Text, comment="The run that said it"),
    sa.Column("attempt", sa.Integer, comment="The attempt that wrote it; null for a copy"),
    sa.Column("entry", Json, nullable=False),
    sa.Column("objects", ARRAY(sa.Text), comment="The SHA-256 of its strings that are stored outside"),
    sa.Column("bytes", sa.BigInteger, sa.Computed("octet_length(entry::text)")),
    sa.Column("written_at", UtcDateTime, nullable=False, server_default=sa.text("now()")),
    sa.UniqueConstraint(
        "project_key", "session_id", "subpath", "entry_uuid", name="uq_session_entries_entry"
    ),
)

sa.Index(
    "ix_session_entries_runs",
    session_entries.c.project_key,
    session_entries.c.session_id,
    session_entries.c.subpath,
    session_entries.c.run_id,
    session_entries.c.position,
)

sa.Index(
    "ix_session_entries_objects",
    session_entries.c.objects,
    postgresql_using="gin",
    postgresql_where=sa.text("objects IS NOT NULL"),
)
