"""keep the last prompt of a conversation."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "a3c71f5d08e2"
down_revision: str | None = "5e0c94b7d163"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "session_prompts",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("prompt", JSONB(), nullable=False, comment="The last prompt, as hashes of its parts"),
        sa.ForeignKeyConstraint(
            ["account_id", "state_key"],
            ["sessions.account_id", "sessions.state_key"],
            name=op.f("fk_session_prompts_account_id_sessions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "state_key", name=op.f("pk_session_prompts")),
    )
