"""The contents that are stored outside the database."""

from sqlalchemy import BigInteger, Column, Identity, Index, Table, Text, Uuid, text

from app.platform.db import UtcDateTime, metadata

stored_objects = Table(
    "stored_objects",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("sha256", Text, primary_key=True),
    Column("bytes", BigInteger, nullable=False),
    Column("check_at", UtcDateTime, comment="When it is deleted, unless something refers to it then"),
)

Index("ix_stored_objects_check_at", stored_objects.c.check_at, postgresql_where=text("check_at IS NOT NULL"))

released_objects = Table(
    "released_objects",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("account_id", Uuid, nullable=False),
    Column("sha256", Text, nullable=False),
    comment="Contents to which one reference less leads",
)
