"""Changes of the storage that accounts use; written by triggers."""

from sqlalchemy import BigInteger, Column, Identity, Index, Table, Text

from app.platform.db import metadata

storage_changes = Table(
    "storage_changes",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("owner", Text, nullable=False, comment="The account's id"),
    Column("bytes", BigInteger, nullable=False, comment="Added, or taken away where negative"),
)

Index("ix_storage_changes_owner", storage_changes.c.owner)
