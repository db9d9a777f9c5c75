"""read the ledger: grants that expire, and the entries in which they do."""

import sqlalchemy as sa
from alembic import op

revision: str = "b3d58f0c41e7"
down_revision: str | None = "e19a7d5c30b2"
compatibility: str = "expand"

# An expiry is an adjustment in the sums, as the release before knows no other.
_CREDIT = """
CREATE OR REPLACE FUNCTION credit_accounts_follow_the_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO credit_accounts AS held (account_id, granted, adjusted, spent, reserved, spent_by_month)
    SELECT entry.account_id,
           coalesce(sum(credits) FILTER (WHERE kind = 'grant'), 0),
           coalesce(sum(credits) FILTER (WHERE kind IN ('adjustment', 'expiry')), 0),
           coalesce(-sum(credits) FILTER (WHERE kind = 'debit'), 0),
           coalesce(-sum(credits) FILTER (WHERE kind IN ('reservation', 'release')), 0),
           coalesce((
               SELECT jsonb_object_agg(month, spent) FROM (
                   SELECT to_char(coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM') AS month,
                          -sum(credits) AS spent
                     FROM added WHERE added.account_id = entry.account_id AND kind = 'debit' GROUP BY 1
               ) AS by_month
           ), '{}')
      FROM added AS entry GROUP BY entry.account_id ORDER BY entry.account_id
    ON CONFLICT (account_id) DO UPDATE SET
        granted = held.granted + excluded.granted,
        adjusted = held.adjusted + excluded.adjusted,
        spent = held.spent + excluded.spent,
        reserved = held.reserved + excluded.reserved,
        spent_by_month = CASE excluded.spent_by_month WHEN '{}' THEN held.spent_by_month
            ELSE sum_by_key(held.spent_by_month, excluded.spent_by_month) END;
    RETURN NULL;
END
$$
"""

_CHECKS = {
    "kind": "kind IN ('grant', 'adjustment', 'expiry', 'debit', 'reservation', 'release')",
    "sign": "CASE kind WHEN 'debit' THEN true WHEN 'reservation' THEN credits < 0 "
    "WHEN 'adjustment' THEN credits <> 0 WHEN 'expiry' THEN credits <= 0 ELSE credits > 0 END",
    "expiry_has_grant": "(kind = 'expiry') = (grant_id IS NOT NULL)",
}

_COLUMNS = (
    ("expires_at", sa.DateTime(timezone=True), "Of a grant: when what is left of it expires"),
    ("priority", sa.SmallInteger(), "Of a grant: a lower one is spent first; null: 0"),
    ("grant_id", sa.BigInteger(), "Of an expiry: its grant"),
    ("balance", sa.BigInteger(), "Of a grant, adjustment or expiry: that of the account with it"),
)

_KIND = "grant, adjustment, expiry, debit, or reservation and release: credit that runs hold meanwhile"


def upgrade() -> None:
    """Apply while older servers may still run: they write no expiry, and sum up those of others."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name, type_, comment in _COLUMNS:
        op.add_column("credit_ledger", sa.Column(name, type_, nullable=True, comment=comment))
    op.execute("ALTER TABLE credit_ledger DROP CONSTRAINT ck_credit_ledger_kind")
    op.execute("ALTER TABLE credit_ledger DROP CONSTRAINT ck_credit_ledger_sign")
    for name, condition in _CHECKS.items():
        op.execute(
            f"ALTER TABLE credit_ledger ADD CONSTRAINT ck_credit_ledger_{name} CHECK ({condition}) NOT VALID"
        )
    grants = sa.text("grant_id IS NOT NULL")
    op.create_index(
        "uq_credit_ledger_grant_id", "credit_ledger", ["grant_id"], unique=True, postgresql_where=grants
    )
    op.create_index(
        "ix_credit_ledger_expires_at",
        "credit_ledger",
        ["account_id", "expires_at"],
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_index(
        "ix_credit_ledger_booked",
        "credit_ledger",
        ["account_id", "id"],
        postgresql_where=sa.text("kind IN ('grant', 'adjustment', 'expiry')"),
    )
    op.execute(_CREDIT)
    op.execute(f"COMMENT ON COLUMN billing_ledger.kind IS '{_KIND}'")
