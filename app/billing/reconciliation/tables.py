"""Reconciliations: their results by hour, located differences, differing prices, and calls of the gateway."""

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
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.platform.db import UtcDateTime, metadata

_USD = Numeric(24, 10)
_UNIT_USD = Numeric(30, 18)

reconciliations = Table(
    "reconciliations",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("window_start", UtcDateTime, nullable=False),
    Column("window_end", UtcDateTime, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("lease_until", UtcDateTime, nullable=False, comment="A running one is dead after this"),
    Column("finished_at", UtcDateTime),
    Column("problem", Text),
    Column("summary", JSONB, nullable=False, server_default="{}"),
    CheckConstraint("state IN ('running', 'complete', 'failed')", name="state"),
)
Index(
    "uq_reconciliations_running",
    reconciliations.c.state,
    unique=True,
    postgresql_where=text("state = 'running'"),
)

reconciled_usage = Table(
    "reconciled_usage",
    metadata,
    Column("hour", UtcDateTime, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("reconciliation_id", Uuid, ForeignKey("reconciliations.id"), nullable=False),
    Column("reported_usd", _USD, nullable=False),
    Column("recorded_usd", _USD, nullable=False),
    Column("unexplained_usd", _USD, nullable=False),
    Column("foreign_usd", _USD, nullable=False),
    Column("listed_usd", _USD),
    Column("receipts", BigInteger, nullable=False),
    Column("differences", Integer, nullable=False),
    Column("unexplained", Integer, nullable=False),
)

_DIMENSIONS = ("model", "inference_geo", "service_tier", "speed", "context_window")

reconciliation_differences = Table(
    "reconciliation_differences",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("reconciliation_id", Uuid, ForeignKey("reconciliations.id"), nullable=False),
    Column("starting_at", UtcDateTime, nullable=False),
    Column("ending_at", UtcDateTime, nullable=False),
    *(Column(name, Text, nullable=False) for name in _DIMENSIONS),
    Column("cause", Text, nullable=False),
    Column("explained", Boolean, nullable=False),
    Column("counts", JSONB, nullable=False, comment="Reported minus recorded"),
    Column("amount_usd", _USD),
    Column("lines", JSONB, nullable=False),
    Column("api_key_id", Text),
    Column("account_id", Uuid, ForeignKey("accounts.id")),
    Column("evidence", JSONB, nullable=False),
    Column("found_at", UtcDateTime, nullable=False, server_default=text("clock_timestamp()")),
    Column("superseded_by", Uuid, ForeignKey("reconciliations.id"), comment="A later comparison"),
)
Index(
    "ix_reconciliation_differences_current",
    reconciliation_differences.c.starting_at,
    reconciliation_differences.c.id,
    postgresql_where=text("superseded_by IS NULL"),
)

price_differences = Table(
    "price_differences",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("reconciliation_id", Uuid, ForeignKey("reconciliations.id"), nullable=False),
    Column("starting_at", UtcDateTime, nullable=False),
    Column("ending_at", UtcDateTime, nullable=False),
    *(Column(name, Text, nullable=False) for name in _DIMENSIONS),
    Column("kind", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("provider_unit_usd", _UNIT_USD, nullable=False),
    Column("own_unit_usd", _UNIT_USD),
    Column("price_version", Text, nullable=False),
    Column("amount_usd", _USD, nullable=False, comment="The proposed adjustment"),
    Column("source", Text, nullable=False),
    Column("found_at", UtcDateTime, nullable=False, server_default=text("clock_timestamp()")),
    Column("superseded_by", Uuid, ForeignKey("reconciliations.id"), comment="A later comparison"),
)
Index(
    "ix_price_differences_current",
    price_differences.c.starting_at,
    price_differences.c.id,
    postgresql_where=text("superseded_by IS NULL"),
)

gateway_calls = Table(
    "gateway_calls",
    metadata,
    Column("minute", UtcDateTime, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("sent", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False, comment="The provider responded with an error"),
)

unbilled_messages = Table(
    "unbilled_messages",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("used_at", UtcDateTime, nullable=False, index=True),
    Column("model", Text, nullable=False),
    Column("counts", JSONB, nullable=False),
)
