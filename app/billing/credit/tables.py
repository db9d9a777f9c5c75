"""The credit ledger, and the sums that triggers keep (see the migrations)."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    Identity,
    Index,
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
    UniqueConstraint("receipt_id", name="uq_credit_ledger_receipt_id"),
    UniqueConstraint("account_id", "reference", name="uq_credit_ledger_reference"),
    CheckConstraint("kind IN ('grant', 'adjustment', 'debit', 'reservation', 'release')", name="kind"),
    CheckConstraint("(kind = 'debit') = (receipt_id IS NOT NULL)", name="debit_has_receipt"),
    CheckConstraint(
        "CASE kind WHEN 'debit' THEN true WHEN 'reservation' THEN credits < 0 "
        "WHEN 'adjustment' THEN credits <> 0 ELSE credits > 0 END",
        name="sign",
    ),
)

Index("ix_credit_ledger_account_id_id", credit_ledger.c.account_id, credit_ledger.c.id)
Index(
    "ix_credit_ledger_reservations",
    credit_ledger.c.account_id,
    credit_ledger.c.run_id,
    postgresql_where=text("kind IN ('reservation', 'release')"),
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
    CheckConstraint("mode IN ('prepaid', 'postpaid')", name="mode"),
    CheckConstraint("monthly_budget >= 0", name="monthly_budget"),
)
