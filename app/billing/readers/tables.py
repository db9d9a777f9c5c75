"""Which role of the database reads which account in the billing views (see the migrations)."""

from sqlalchemy import Column, ForeignKey, Table, Text, Uuid

from app.platform.db import metadata

billing_readers = Table(
    "billing_readers",
    metadata,
    Column("role", Text, primary_key=True, comment="A role of the database"),
    Column("account_id", Uuid, ForeignKey("accounts.id"), comment="What it reads; null: all accounts"),
)
