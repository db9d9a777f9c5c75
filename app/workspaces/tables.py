"""Workspaces of runs and their stored files."""

import sqlalchemy as sa

from app.platform.db import UtcDateTime, metadata

workspaces = sa.Table(
    "workspaces",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("harvested", sa.Boolean, nullable=False, comment="Whether what the run left is here"),
    sa.Column("truncated", sa.Boolean, nullable=False, comment="Whether the run left more than is kept"),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column(
        "emptied",
        sa.Boolean,
        nullable=False,
        server_default=sa.text("false"),
        comment="Its files are removed",
    ),
    sa.Column(
        "is_state",
        sa.Boolean,
        nullable=False,
        server_default=sa.text("false"),
        comment="Whether its files are all that the next turn of its conversation begins with",
    ),
    sa.ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

sa.Index("ix_workspaces_to_empty", workspaces.c.expires_at, postgresql_where=sa.text("NOT emptied"))

workspace_files = sa.Table(
    "workspace_files",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column(
        "content",
        sa.LargeBinary,
        nullable=False,
        comment="Empty if it is in `file_contents` or outside the database",
    ),
    sa.Column("is_executable", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.CheckConstraint("origin IN ('uploaded', 'created', 'changed', 'kept')", name="origin"),
    sa.ForeignKeyConstraint(
        ["account_id", "run_id"], ["workspaces.account_id", "workspaces.run_id"], ondelete="CASCADE"
    ),
)

sa.Index("ix_workspace_files_contents", workspace_files.c.account_id, workspace_files.c.sha256)

file_contents = sa.Table(
    "file_contents",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("sha256", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.CheckConstraint("sha256 = encode(sha256(content), 'hex')", name="sha256"),
)
"""The contents of files that are kept from turn to turn; a trigger deletes those that no file has."""

workspace_traffic = sa.Table(
    "workspace_traffic",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("host", sa.Text, primary_key=True, comment="With its port if that is not 443"),
    sa.Column("sent_bytes", sa.BigInteger, nullable=False, comment="By the run's commands, over TLS"),
    sa.Column("received_bytes", sa.BigInteger, nullable=False),
    sa.Column("connections", sa.BigInteger, nullable=False),
    sa.ForeignKeyConstraint(
        ["account_id", "run_id"], ["workspaces.account_id", "workspaces.run_id"], ondelete="CASCADE"
    ),
)
