"""keep open messages."""

import sqlalchemy as sa
from alembic import op

revision: str = "8d41c7f20b9e"
down_revision: str | None = "8c41f7a2d905"


def upgrade() -> None:
    """Apply while older servers may still run: they do not use the table."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "open_messages",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("source_reference", sa.Text(), nullable=False, comment="run_id/attempt/message_id"),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fact", sa.JSON(), nullable=False, comment="Its usage so far"),
        sa.Column("is_complete", sa.Boolean(), nullable=False, comment="Whether its final usage is known"),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "source_reference", name=op.f("pk_open_messages")),
        postgresql_with={"fillfactor": "50"},
    )
