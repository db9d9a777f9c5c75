"""Webhooks and their deliveries; triggers insert deliveries (see the migration)."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.platform.db import Json, UtcDateTime, metadata

_NOW = sa.text("clock_timestamp()")

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), nullable=False, index=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("events", ARRAY(sa.Text), nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("secret", sa.Text, nullable=False, comment="As it is: deliveries are signed with it"),
    sa.Column(
        "format",
        sa.Text,
        nullable=False,
        server_default="runtally",
        comment="runtally, cloudevents or stripe",
    ),
    sa.Column("event_type", sa.Text, comment="The name of each event there"),
    sa.Column("subject", sa.Text, comment="Who is charged there"),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("disabled_reason", sa.Text),
    sa.Column("disabled_at", UtcDateTime),
    sa.Column("failing_since", UtcDateTime, comment="The first failure after the last success"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.CheckConstraint("cardinality(events) > 0", name="events"),
    sa.CheckConstraint("disabled_reason IN ('by_request', 'gone', 'failing')", name="disabled_reason"),
    sa.CheckConstraint(
        "enabled = (disabled_at IS NULL) AND enabled = (disabled_reason IS NULL)", name="disabled"
    ),
)

webhook_deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True, server_default=sa.text("gen_random_uuid()")),
    sa.Column("webhook_id", sa.Uuid, sa.ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("payload", Json, nullable=False),
    sa.Column("status", sa.Text, nullable=False, server_default="pending"),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column(
        "next_attempt_at",
        UtcDateTime,
        nullable=False,
        server_default=_NOW,
        comment="While an attempt is under way: when it is given up for lost",
    ),
    sa.Column("last_status", sa.Integer, comment="What the receiver answered"),
    sa.Column("last_error", sa.Text, comment="Our own word for what went wrong"),
    sa.Column("created_at", UtcDateTime, nullable=False, server_default=_NOW),
    sa.Column("delivered_at", UtcDateTime),
    sa.CheckConstraint("status IN ('pending', 'delivered', 'failed', 'cancelled')", name="status"),
)

sa.Index(
    "ix_webhook_deliveries_pending",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.next_attempt_at,
    postgresql_where=sa.text("status = 'pending'"),
)
sa.Index(
    "ix_webhook_deliveries_newest",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.created_at.desc(),
    webhook_deliveries.c.id.desc(),
)

webhook_credit_levels = sa.Table(
    "webhook_credit_levels",
    metadata,
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("level", sa.BigInteger, nullable=False, comment="The balance after credit was last added"),
)
