"""Webhooks and their deliveries; triggers insert deliveries (see the migration)."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from app.platform.db import Json, UtcDateTime, metadata

_NOW = text("clock_timestamp()")

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("events", ARRAY(Text), nullable=False),
    Column("description", Text),
    Column("secret", Text, nullable=False, comment="As it is: deliveries are signed with it"),
    Column(
        "format",
        Text,
        nullable=False,
        server_default="runtally",
        comment="runtally, cloudevents or stripe",
    ),
    Column("event_type", Text, comment="The name of each event there"),
    Column("subject", Text, comment="Who is charged there"),
    Column("enabled", Boolean, nullable=False),
    Column("disabled_reason", Text),
    Column("disabled_at", UtcDateTime),
    Column("failing_since", UtcDateTime, comment="The first failure after the last success"),
    Column("created_at", UtcDateTime, nullable=False),
    CheckConstraint("cardinality(events) > 0", name="events"),
    CheckConstraint("disabled_reason IN ('by_request', 'gone', 'failing')", name="disabled_reason"),
    CheckConstraint(
        "enabled = (disabled_at IS NULL) AND enabled = (disabled_reason IS NULL)", name="disabled"
    ),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Uuid, primary_key=True, server_default=text("gen_random_uuid()")),
    Column("webhook_id", Uuid, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("event", Text, nullable=False),
    Column("payload", Json, nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column(
        "next_attempt_at",
        UtcDateTime,
        nullable=False,
        server_default=_NOW,
        comment="While an attempt is under way: when it is given up for lost",
    ),
    Column("last_status", Integer, comment="What the receiver answered"),
    Column("last_error", Text, comment="Our own word for what went wrong"),
    Column("created_at", UtcDateTime, nullable=False, server_default=_NOW),
    Column("delivered_at", UtcDateTime),
    CheckConstraint("status IN ('pending', 'delivered', 'failed', 'cancelled')", name="status"),
)

Index(
    "ix_webhook_deliveries_pending",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.next_attempt_at,
    postgresql_where=text("status = 'pending'"),
)
Index(
    "ix_webhook_deliveries_newest",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.created_at.desc(),
    webhook_deliveries.c.id.desc(),
)

webhook_credit_levels = Table(
    "webhook_credit_levels",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("level", BigInteger, nullable=False, comment="The balance after credit was last added"),
)
