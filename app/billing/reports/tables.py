"""The sums of usage that triggers keep (see the migrations)."""

from sqlalchemy import BigInteger, Column, ForeignKey, Numeric, Table, Text, Uuid

from app.platform.db import UtcDateTime, metadata

usage_rollups = Table(
    "usage_rollups",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("bucket", UtcDateTime, primary_key=True, comment="Start of 15 minutes"),
    Column("model", Text, primary_key=True),
    Column("graph_id", Text, primary_key=True),
    Column("api_key_id", Uuid, primary_key=True),
    Column("receipts", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_5m_tokens", BigInteger, nullable=False),
    Column("cache_write_1h_tokens", BigInteger, nullable=False),
    Column("cost_usd", Numeric(24, 10), nullable=False),
    Column("charged_credits", BigInteger, nullable=False),
    Column("cache_savings_usd", Numeric(24, 10), nullable=False, server_default="0"),
    Column("cache_miss_usd", Numeric(24, 10), nullable=False, server_default="0"),
    Column("web_search_requests", BigInteger, nullable=False, server_default="0"),
    Column("web_fetch_requests", BigInteger, nullable=False, server_default="0"),
)
