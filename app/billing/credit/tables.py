"""The credit ledger, and the sums that triggers keep (see the migrations)."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.platform.db import UtcDateTime, metadata

credit_ledger = sa.Table(
    "credit_ledger",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("credits", sa.BigInteger, nullable=False, comment="What it adds to the account"),
    sa.Column("receipt_id", sa.Uuid, sa.ForeignKey("charge_receipts.id")),
    sa.Column("run_id", sa.Text),
    sa.Column("reference", sa.Text, comment="The caller's own idempotency key"),
    sa.Column("note", sa.Text),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("used_at", UtcDateTime, comment="Of a debit: when the message began"),
    sa.Column("expires_at", UtcDateTime, comment="Of a grant: when what is left of it expires"),
    sa.Column("priority", sa.SmallInteger, comment="Of a grant: a lower one is spent first; null: 0"),
    sa.Column("grant_id", sa.BigInteger, comment="Of an expiry: its grant"),
    sa.Column(
        "balance", sa.BigInteger, comment="Of a grant, adjustment or expiry: that of the account with it"
    ),
    sa.UniqueConstraint("receipt_id", name="uq_credit_ledger_receipt_id"),
    sa.UniqueConstraint("account_id", "reference", name="uq_credit_ledger_reference"),
    sa.CheckConstraint(
        "kind IN ('grant', 'adjustment', 'expiry', 'debit', 'reservation', 'release')", name="kind"
    ),
    sa.CheckConstraint("(kind = 'debit') = (receipt_id IS NOT NULL)", name="debit_has_receipt"),
    sa.CheckConstraint(
        "CASE kind WHEN 'debit' THEN true WHEN 'reservation' THEN credits < 0 "
        "WHEN 'adjustment' THEN credits <> 0 WHEN 'expiry' THEN credits <= 0 ELSE credits > 0 END",
        name="sign",
    ),
    sa.CheckConstraint("(kind = 'expiry') = (grant_id IS NOT NULL)", name="expiry_has_grant"),
)

sa.Index("ix_credit_ledger_account_id_id", credit_ledger.c.account_id, credit_ledger.c.id)
sa.Index(
    "ix_credit_ledger_reservations",
    credit_ledger.c.account_id,
    credit_ledger.c.run_id,
    postgresql_where=sa.text("kind IN ('reservation', 'release')"),
)
sa.Index(
    "uq_credit_ledger_grant_id",
    credit_ledger.c.grant_id,
    unique=True,
    postgresql_where=sa.text("grant_id IS NOT NULL"),
)
sa.Index(
    "ix_credit_ledger_expires_at",
    credit_ledger.c.account_id,
    credit_ledger.c.expires_at,
    postgresql_where=sa.text("expires_at IS NOT NULL"),
)
sa.Index(
    "ix_credit_ledger_booked",
    credit_ledger.c.account_id,
    credit_ledger.c.id,
    postgresql_where=sa.text("kind IN ('grant', 'adjustment', 'expiry')"),
)

credit_accounts = sa.Table(
    "credit_accounts",
    metadata,
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("mode", sa.Text, nullable=False, server_default="postpaid"),
    # Of earlier releases: has become a row of `budgets`, and can be dropped once none of them is in use.
    sa.Column("monthly_budget", sa.BigInteger, comment="Credits a calendar month, UTC"),
    sa.Column("granted", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("adjusted", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("spent", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("reserved", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column(
        "spent_by_month",
        JSONB,
        nullable=False,
        server_default="{}",
        comment="Credits by calendar month (UTC), YYYY-MM",
    ),
    sa.Column(
        "balance", sa.BigInteger, sa.Computed("granted + adjusted - spent", persisted=True), nullable=False
    ),
    sa.Column("top_up_below", sa.BigInteger, comment="More credit is requested below it; null: never"),
    sa.Column("top_up_credits", sa.BigInteger, comment="How much is requested"),
    sa.Column("top_up_per_day", sa.SmallInteger, comment="How often a day (UTC) at most"),
    sa.Column("top_up_requested_at", UtcDateTime, comment="For the last time"),
    sa.Column("top_ups_that_day", sa.SmallInteger, comment="How often it was requested on that day"),
    sa.Column("top_up_open", sa.Boolean, comment="Whether no credit was added since"),
    sa.CheckConstraint("mode IN ('prepaid', 'postpaid')", name="mode"),
    sa.CheckConstraint("monthly_budget >= 0", name="monthly_budget"),
)
