"""Workspaces of runs and their stored files."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    Text,
    Uuid,
    text,
)

from app.platform.db import UtcDateTime, metadata

workspaces = Table(
    "workspaces",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("harvested", Boolean, nullable=False, comment="Whether what the run left is here"),
    Column("truncated", Boolean, nullable=False, comment="Whether the run left more than is kept"),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("emptied", Boolean, nullable=False, server_default=text("false"), comment="Its files are removed"),
    Column(
        "is_state",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether its files are all that the next turn of its conversation begins with",
    ),
    ForeignKeyConstraint(["account_id", "run_id"], ["runs.account_id", "runs.run_id"], ondelete="CASCADE"),
)

Index("ix_workspaces_to_empty", workspaces.c.expires_at, postgresql_where=text("NOT emptied"))

workspace_files = Table(
    "workspace_files",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("origin", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column(
        "content",
        LargeBinary,
        nullable=False,
        comment="Empty if it is in `file_contents` or outside the database",
    ),
    Column("is_executable", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("origin IN ('uploaded', 'created', 'changed', 'kept')", name="origin"),
    ForeignKeyConstraint(
        ["account_id", "run_id"], ["workspaces.account_id", "workspaces.run_id"], ondelete="CASCADE"
    ),
)

Index("ix_workspace_files_contents", workspace_files.c.account_id, workspace_files.c.sha256)

file_contents = Table(
    "file_contents",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("sha256", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    CheckConstraint("sha256 = encode(sha256(content), 'hex')", name="sha256"),
)
"""The contents of files that are kept from turn to turn; a trigger deletes those that no file has."""

workspace_traffic = Table(
    "workspace_traffic",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("host", Text, primary_key=True, comment="With its port if that is not 443"),
    Column("sent_bytes", BigInteger, nullable=False, comment="By the run's commands, over TLS"),
    Column("received_bytes", BigInteger, nullable=False),
    Column("connections", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["account_id", "run_id"], ["workspaces.account_id", "workspaces.run_id"], ondelete="CASCADE"
    ),
)
