"""The sums of usage that triggers keep (see the migrations)."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Numeric, Table, Text, Uuid

from app.platform.db import UtcDateTime, metadata
from app.platform.postgres.by_time import BY_TIME

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

Index("ix_usage_rollups_bucket", usage_rollups.c.bucket, **BY_TIME)

_COUNTS = [column.name for column in usage_rollups.c if not column.primary_key]

labelled_rollups = Table(
    "labelled_rollups",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("label", Text, primary_key=True, comment="endUser, or tag: and the name of a tag"),
    Column("bucket", UtcDateTime, primary_key=True, comment="Start of 15 minutes"),
    Column("value", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("graph_id", Text, primary_key=True),
    Column("api_key_id", Uuid, primary_key=True),
    *(Column(name, usage_rollups.c[name].type, nullable=False) for name in _COUNTS),
)
"""The same sums of the receipts that have an end user or tags, once for each of these."""

Index(
    "ix_labelled_rollups_value",
    *(labelled_rollups.c[name] for name in ("account_id", "label", "value", "bucket")),
)
