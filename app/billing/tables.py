"""Charge receipts: one row per assistant message, never changed."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)

from app.db import UtcDateTime, metadata

charge_receipts = Table(
    "charge_receipts",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("source_system", Text, nullable=False),
    Column("source_reference", Text, nullable=False, comment="run_id/attempt/message_id"),
    Column("run_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("usage_unit_id", Text, nullable=False, comment="The message id of the API"),
    Column("account_id", Uuid, ForeignKey("accounts.id"), nullable=False),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False),
    Column("graph_id", Text, nullable=False),
    Column("executor_type", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_5m_tokens", BigInteger, nullable=False),
    Column("cache_write_1h_tokens", BigInteger, nullable=False),
    Column("cost_usd", Numeric(20, 10), nullable=False),
    Column("charged_credits", BigInteger, nullable=False),
    Column("basis", Text, nullable=False),
    Column("output_estimated", Boolean, nullable=False),
    Column("origin", Text, nullable=False),
    Column("parent_tool_call_id", Text),
    Column("ingress_request_id", Text),
    Column("created_at", UtcDateTime, nullable=False),
    UniqueConstraint("source_system", "source_reference", name="uq_charge_receipts_source"),
    CheckConstraint("executor_type IN ('claude_sdk', 'messages_api')", name="executor_type"),
    CheckConstraint("basis IN ('final', 'partial', 'recovered')", name="basis"),
    CheckConstraint("origin IN ('assistant', 'subagent', 'hidden')", name="origin"),
)

Index(
    "ix_charge_receipts_run",
    charge_receipts.c.account_id,
    charge_receipts.c.run_id,
    charge_receipts.c.created_at,
    charge_receipts.c.id,
)
Index(
    "ix_charge_receipts_newest",
    charge_receipts.c.account_id,
    charge_receipts.c.created_at.desc(),
    charge_receipts.c.id.desc(),
)
