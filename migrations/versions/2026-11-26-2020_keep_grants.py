"""keep grants: tools that a person has allowed for the rest of a conversation."""

import sqlalchemy as sa
from alembic import op

revision: str = "e19c5b7a03d4"
down_revision: str | None = "7e03c5d9a1f4"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they ask about each call."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "permission_grants",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("tool_id", sa.Text(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False, comment="Who has given it"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_permission_grants")),
        sa.UniqueConstraint(
            "account_id", "state_key", "graph_id", "tool_id", name="uq_permission_grants_tool"
        ),
        sa.ForeignKeyConstraint(
            ["account_id", "state_key"],
            ["sessions.account_id", "sessions.state_key"],
            ondelete="CASCADE",
            name=op.f("fk_permission_grants_account_id_state_key"),
        ),
        sa.ForeignKeyConstraint(
            ["api_key_id"], ["api_keys.id"], name=op.f("fk_permission_grants_api_key_id")
        ),
    )
