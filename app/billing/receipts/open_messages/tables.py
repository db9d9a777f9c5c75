"""Messages in progress."""

from sqlalchemy import Boolean, Column, Integer, Table, Text, Uuid

from app.platform.db import Json, UtcDateTime, metadata

open_messages = Table(
    "open_messages",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("source_reference", Text, primary_key=True, comment="run_id/attempt/message_id"),
    Column("run_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fact", Json, nullable=False, comment="Its usage so far"),
    Column("is_complete", Boolean, nullable=False, comment="Whether its final usage is known"),
    Column("updated_at", UtcDateTime, nullable=False),
    # A row is updated while its message grows: room on its page keeps the updates out of the index.
    postgresql_with={"fillfactor": "50"},
)
