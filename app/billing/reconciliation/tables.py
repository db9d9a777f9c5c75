"""Reconciliations: their results by hour, located differences, differing prices, and calls of the gateway."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.platform.db import UtcDateTime, metadata

_USD = sa.Numeric(24, 10)
_UNIT_USD = sa.Numeric(30, 18)

reconciliations = sa.Table(
    "reconciliations",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("window_start", UtcDateTime, nullable=False),
    sa.Column("window_end", UtcDateTime, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("lease_until", UtcDateTime, nullable=False, comment="A running one is dead after this"),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("problem", sa.Text),
    sa.Column("summary", JSONB, nullable=False, server_default="{}"),
    sa.CheckConstraint("state IN ('running', 'complete', 'failed')", name="state"),
)
sa.Index(
    "uq_reconciliations_running",
    reconciliations.c.state,
    unique=True,
    postgresql_where=sa.text("state = 'running'"),
)

reconciled_usage = sa.Table(
    "reconciled_usage",
    metadata,
    sa.Column("hour", UtcDateTime, primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("reconciliation_id", sa.Uuid, sa.ForeignKey("reconciliations.id"), nullable=False),
    sa.Column("reported_usd", _USD, nullable=False),
    sa.Column("recorded_usd", _USD, nullable=False),
    sa.Column("unexplained_usd", _USD, nullable=False),
    sa.Column("foreign_usd", _USD, nullable=False),
    sa.Column("listed_usd", _USD),
    sa.Column("receipts", sa.BigInteger, nullable=False),
    sa.Column("differences", sa.Integer, nullable=False),
    sa.Column("unexplained", sa.Integer, nullable=False),
)

_DIMENSIONS = ("model", "inference_geo", "service_tier", "speed", "context_window")

reconciliation_differences = sa.Table(
    "reconciliation_differences",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("reconciliation_id", sa.Uuid, sa.ForeignKey("reconciliations.id"), nullable=False),
    sa.Column("starting_at", UtcDateTime, nullable=False),
    sa.Column("ending_at", UtcDateTime, nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in _DIMENSIONS),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("explained", sa.Boolean, nullable=False),
    sa.Column("counts", JSONB, nullable=False, comment="Reported minus recorded"),
    sa.Column("amount_usd", _USD),
    sa.Column("lines", JSONB, nullable=False),
    sa.Column("api_key_id", sa.Text),
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id")),
    sa.Column("evidence", JSONB, nullable=False),
    sa.Column("found_at", UtcDateTime, nullable=False, server_default=sa.text("clock_timestamp()")),
    sa.Column("superseded_by", sa.Uuid, sa.ForeignKey("reconciliations.id"), comment="A later comparison"),
)
sa.Index(
    "ix_reconciliation_differences_current",
    reconciliation_differences.c.starting_at,
    reconciliation_differences.c.id,
    postgresql_where=sa.text("superseded_by IS NULL"),
)

price_differences = sa.Table(
    "price_differences",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("reconciliation_id", sa.Uuid, sa.ForeignKey("reconciliations.id"), nullable=False),
    sa.Column("starting_at", UtcDateTime, nullable=False),
    sa.Column("ending_at", UtcDateTime, nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in _DIMENSIONS),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("provider_unit_usd", _UNIT_USD, nullable=False),
    sa.Column("own_unit_usd", _UNIT_USD),
    sa.Column("price_version", sa.Text, nullable=False),
    sa.Column("amount_usd", _USD, nullable=False, comment="The proposed adjustment"),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("found_at", UtcDateTime, nullable=False, server_default=sa.text("clock_timestamp()")),
    sa.Column("superseded_by", sa.Uuid, sa.ForeignKey("reconciliations.id"), comment="A later comparison"),
)
sa.Index(
    "ix_price_differences_current",
    price_differences.c.starting_at,
    price_differences.c.id,
    postgresql_where=sa.text("superseded_by IS NULL"),
)

gateway_calls = sa.Table(
    "gateway_calls",
    metadata,
    sa.Column("minute", UtcDateTime, primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("sent", sa.BigInteger, nullable=False),
    sa.Column("refused", sa.BigInteger, nullable=False, comment="The provider responded with an error"),
)

unbilled_messages = sa.Table(
    "unbilled_messages",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("used_at", UtcDateTime, nullable=False, index=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("counts", JSONB, nullable=False),
)
