"""branch conversations: an edited message or a repeated answer begins a branch, and the earlier one stays."""

import sqlalchemy as sa
from alembic import op

revision: str = "b52f90c7a31d"
down_revision: str | None = "e7b1c5d20a94"
compatibility: str = "expand"

# Whichever release deletes a conversation, it knows the transcript of one branch at most.
_DELETE_TRANSCRIPT = """
CREATE FUNCTION delete_transcript_of_branch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM session_entries
     WHERE project_key = old.account_id::text AND session_id = old.session_id::text;
    RETURN NULL;
END
$$
"""
_TRIGGER = """
CREATE TRIGGER delete_transcript AFTER DELETE ON conversation_branches
FOR EACH ROW EXECUTE FUNCTION delete_transcript_of_branch()
"""


def upgrade() -> None:
    """Apply while older servers may still run: they continue the branch that is current."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "conversation_branches",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False, comment="Names its transcript"),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("is_forked", sa.Boolean(), nullable=False, comment="Whether it is not the first branch"),
        sa.Column("forked_from_run", sa.Text(), comment="The last run in common with another branch, if any"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "session_id", name=op.f("pk_conversation_branches")),
        sa.ForeignKeyConstraint(
            ["account_id", "state_key"],
            ["sessions.account_id", "sessions.state_key"],
            name=op.f("fk_conversation_branches_account_id_state_key"),
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_conversation_branches_conversation", "conversation_branches", ["account_id", "state_key"]
    )
    op.execute(_DELETE_TRANSCRIPT)
    op.execute(_TRIGGER)
    op.add_column("runs", sa.Column("session_id", sa.Uuid(), comment="The branch it belongs to"))
    op.add_column("runs", sa.Column("message_id", sa.Text(), comment="The client's id of its message"))
