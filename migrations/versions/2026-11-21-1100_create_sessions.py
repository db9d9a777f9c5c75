"""create sessions and run commands."""

import sqlalchemy as sa
from alembic import op

revision: str = "b7d2f4a90c15"
down_revision: str | None = "a5c8e0417d93"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "sessions",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False, comment="What the SDK calls it"),
        sa.Column("turns", sa.Integer(), nullable=False, comment="How many runs it has been given"),
        sa.Column("forked_from", sa.Text(), comment="The state key it was forked from"),
        sa.Column("forked_at", sa.Text(), comment="The last run it has in common with that one"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_sessions_account_id")),
        sa.PrimaryKeyConstraint("account_id", "state_key", name=op.f("pk_sessions")),
    )
    op.create_index(
        "ix_sessions_newest",
        "sessions",
        ["account_id", sa.literal_column("updated_at DESC"), sa.literal_column("state_key DESC")],
    )
    op.create_table(
        "session_entries",
        sa.Column("position", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("project_key", sa.Text(), nullable=False, comment="The account's id, for sessions of runs"),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("subpath", sa.Text(), nullable=False, comment="Empty for the main transcript"),
        sa.Column("entry_uuid", sa.Text(), comment="The entry's own id: the same entry twice is one"),
        sa.Column("run_id", sa.Text(), comment="The run that said it"),
        sa.Column("entry", sa.JSON(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_session_entries")),
        sa.UniqueConstraint(
            "project_key", "session_id", "subpath", "entry_uuid", name="uq_session_entries_entry"
        ),
    )
    op.add_column("runs", sa.Column("state_key", sa.Text(), comment="The conversation it belongs to"))
    op.add_column("runs", sa.Column("turn", sa.Integer(), comment="Its place in that conversation"))
    op.add_column("runs", sa.Column("interruption", sa.JSON(), comment="How far a wish to stop it has come"))
    op.add_column("runs", sa.Column("tool_failures", sa.Integer(), comment="How many tool calls failed"))
    op.create_index(
        "ix_runs_turns",
        "runs",
        ["account_id", "state_key", "turn"],
        postgresql_where=sa.text("state_key IS NOT NULL"),
    )
    op.create_table(
        "run_commands",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("answer", sa.JSON(), comment="What the process that carries the run said"),
        sa.Column("given_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            name=op.f("fk_run_commands_account_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_commands")),
    )
    op.create_index(
        "ix_run_commands_unanswered",
        "run_commands",
        ["account_id", "run_id"],
        postgresql_where=sa.text("answer IS NULL"),
    )
