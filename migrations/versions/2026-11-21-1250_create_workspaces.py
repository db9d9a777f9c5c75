"""create workspaces."""

import sqlalchemy as sa
from alembic import op

revision: str = "f08a63d1b7c4"
down_revision: str | None = "d2f47b90c15e"


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "workspaces",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("harvested", sa.Boolean(), nullable=False, comment="Whether what the run left is here"),
        sa.Column(
            "truncated", sa.Boolean(), nullable=False, comment="Whether the run left more than is kept"
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "emptied",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Its files are removed",
        ),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            name=op.f("fk_workspaces_account_id_run_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "run_id", name=op.f("pk_workspaces")),
    )
    op.create_index(
        "ix_workspaces_to_empty", "workspaces", ["expires_at"], postgresql_where=sa.text("NOT emptied")
    )
    op.create_table(
        "workspace_files",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "origin IN ('uploaded', 'created', 'changed')", name=op.f("ck_workspace_files_origin")
        ),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["workspaces.account_id", "workspaces.run_id"],
            name=op.f("fk_workspace_files_account_id_run_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "run_id", "path", name=op.f("pk_workspace_files")),
    )
