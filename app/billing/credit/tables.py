"""The credit ledger, and the sums that triggers keep (see the migrations)."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    Identity,
    Index,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.platform.db import UtcDateTime, metadata

credit_ledger = Table(
    "credit_ledger",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("account_id", Uuid, ForeignKey("accounts.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("credits", BigInteger, nullable=False, comment="What it adds to the account"),
    Column("receipt_id", Uuid, ForeignKey("charge_receipts.id")),
    Column("run_id", Text),
    Column("reference", Text, comment="The caller's own idempotency key"),
    Column("note", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("used_at", UtcDateTime, comment="Of a debit: when the message began"),
    Column("expires_at", UtcDateTime, comment="Of a grant: when what is left of it expires"),
    Column("priority", SmallInteger, comment="Of a grant: a lower one is spent first; null: 0"),
    Column("grant_id", BigInteger, comment="Of an expiry: its grant"),
    Column("balance", BigInteger, comment="Of a grant, adjustment or expiry: that of the account with it"),
    UniqueConstraint("receipt_id", name="uq_credit_ledger_receipt_id"),
    UniqueConstraint("account_id", "reference", name="uq_credit_ledger_reference"),
    CheckConstraint(
        "kind IN ('grant', 'adjustment', 'expiry', 'debit', 'reservation', 'release')", name="kind"
    ),
    CheckConstraint("(kind = 'debit') = (receipt_id IS NOT NULL)", name="debit_has_receipt"),
    CheckConstraint(
        "CASE kind WHEN 'debit' THEN true WHEN 'reservation' THEN credits < 0 "
        "WHEN 'adjustment' THEN credits <> 0 WHEN 'expiry' THEN credits <= 0 ELSE credits > 0 END",
        name="sign",
    ),
    CheckConstraint("(kind = 'expiry') = (grant_id IS NOT NULL)", name="expiry_has_grant"),
)

Index("ix_credit_ledger_account_id_id", credit_ledger.c.account_id, credit_ledger.c.id)
Index(
    "ix_credit_ledger_reservations",
    credit_ledger.c.account_id,
    credit_ledger.c.run_id,
    postgresql_where=text("kind IN ('reservation', 'release')"),
)
Index(
    "uq_credit_ledger_grant_id",
    credit_ledger.c.grant_id,
    unique=True,
    postgresql_where=text("grant_id IS NOT NULL"),
)
Index(
    "ix_credit_ledger_expires_at",
    credit_ledger.c.account_id,
    credit_ledger.c.expires_at,
    postgresql_where=text("expires_at IS NOT NULL"),
)
Index(
    "ix_credit_ledger_booked",
    credit_ledger.c.account_id,
    credit_ledger.c.id,
    postgresql_where=text("kind IN ('grant', 'adjustment', 'expiry')"),
)

credit_accounts = Table(
    "credit_accounts",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("mode", Text, nullable=False, server_default="postpaid"),
    # Of earlier releases: has become a row of `budgets`, and can be dropped once none of them is in use.
    Column("monthly_budget", BigInteger, comment="Credits a calendar month, UTC"),
    Column("granted", BigInteger, nullable=False, server_default="0"),
    Column("adjusted", BigInteger, nullable=False, server_default="0"),
    Column("spent", BigInteger, nullable=False, server_default="0"),
    Column("reserved", BigInteger, nullable=False, server_default="0"),
    Column(
        "spent_by_month",
        JSONB,
        nullable=False,
        server_default="{}",
        comment="Credits by calendar month (UTC), YYYY-MM",
    ),
    Column("balance", BigInteger, Computed("granted + adjusted - spent", persisted=True), nullable=False),
    Column("top_up_below", BigInteger, comment="More credit is requested below it; null: never"),
    Column("top_up_credits", BigInteger, comment="How much is requested"),
    Column("top_up_per_day", SmallInteger, comment="How often a day (UTC) at most"),
    Column("top_up_requested_at", UtcDateTime, comment="For the last time"),
    Column("top_ups_that_day", SmallInteger, comment="How often it was requested on that day"),
    Column("top_up_open", Boolean, comment="Whether no credit was added since"),
    CheckConstraint("mode IN ('prepaid', 'postpaid')", name="mode"),
    CheckConstraint("monthly_budget >= 0", name="monthly_budget"),
)
