"""create workspace_traffic: what the commands of runs have exchanged with other hosts."""

import sqlalchemy as sa
from alembic import op

revision: str = "e7a30c5d9b14"
down_revision: str | None = "5c0e9a47d3b1"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they do not use the table."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "workspace_traffic",
        sa.Column("account_id", sa.Uuid(), primary_key=True),
        sa.Column("run_id", sa.Text(), primary_key=True),
        sa.Column("host", sa.Text(), primary_key=True, comment="With its port if that is not 443"),
        sa.Column("sent_bytes", sa.BigInteger(), nullable=False, comment="By the run's commands, over TLS"),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.Column("connections", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"], ["workspaces.account_id", "workspaces.run_id"], ondelete="CASCADE"
        ),
    )
