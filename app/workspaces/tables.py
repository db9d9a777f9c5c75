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
    Column("content", LargeBinary, nullable=False),
    CheckConstraint("origin IN ('uploaded', 'created', 'changed')", name="origin"),
    ForeignKeyConstraint(
        ["account_id", "run_id"], ["workspaces.account_id", "workspaces.run_id"], ondelete="CASCADE"
    ),
)

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
