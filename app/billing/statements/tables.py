"""Statements, which are never changed (see the migration)."""

from sqlalchemy import Column, ForeignKey, LargeBinary, Table, Text, Uuid

from app.platform.db import UtcDateTime, metadata

billing_statements = Table(
    "billing_statements",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("month", Text, primary_key=True, comment="YYYY-MM, UTC"),
    Column("content", Text, nullable=False, comment="The JSON that is signed"),
    Column("key", Text, comment="The id of the key that signed it; null: unsigned"),
    Column("signature", LargeBinary, comment="Ed25519"),
    Column("made_at", UtcDateTime, nullable=False),
)
