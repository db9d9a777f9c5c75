"""The audit log. A trigger refuses to change or delete entries."""

from sqlalchemy import Column, Index, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from app.platform.db import UtcDateTime, metadata

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("at", UtcDateTime, nullable=False, server_default=text("now()")),
    Column("via", Text, nullable=False, comment="http, command or server"),
    Column("actor_key_id", Uuid, comment="Who has done it"),
    Column("actor_account_id", Uuid),
    Column("address", Text, comment="Of the client; of a command: its host"),
    Column("request_id", Text),
    Column("account_id", Uuid, nullable=False, comment="To which account it was done"),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False, comment="The id of what has changed"),
    Column("before", JSONB, comment="The old values of what has changed"),
    Column("after", JSONB),
)

Index("ix_audit_entries_at_id", audit_entries.c.at, audit_entries.c.id)
Index(
    "ix_audit_entries_account_id_at_id",
    audit_entries.c.account_id,
    audit_entries.c.at,
    audit_entries.c.id,
)
