"""create credit ledger."""

import sqlalchemy as sa
from alembic import op

revision: str = "e19d35c7f208"
down_revision: str | None = "7b1f0c52ae64"

_LEDGER_IS_FINAL = """
CREATE FUNCTION credit_ledger_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'credit_ledger: an entry is never changed or deleted (%)', TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""

_LEDGER_IS_FINAL_TRIGGER = """
CREATE TRIGGER credit_ledger_is_final
BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_ledger
FOR EACH STATEMENT EXECUTE FUNCTION credit_ledger_is_final()
"""

# The only writer of the sums, in the transaction of the entries themselves.
_FOLLOW = """
CREATE FUNCTION credit_accounts_follow_the_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO credit_accounts AS held (account_id, granted, adjusted, spent, reserved, month, month_spent)
    SELECT account_id,
           coalesce(sum(credits) FILTER (WHERE kind = 'grant'), 0),
           coalesce(sum(credits) FILTER (WHERE kind = 'adjustment'), 0),
           coalesce(-sum(credits) FILTER (WHERE kind = 'debit'), 0),
           coalesce(-sum(credits) FILTER (WHERE kind IN ('reservation', 'release')), 0),
           newest,
           coalesce(-sum(credits) FILTER (WHERE kind = 'debit' AND month = newest), 0)
      FROM (
          SELECT *, max(month) FILTER (WHERE kind = 'debit') OVER (PARTITION BY account_id) AS newest
            FROM (
                SELECT *, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS month FROM added
            ) AS dated
      ) AS entry
     GROUP BY account_id, newest ORDER BY account_id
    ON CONFLICT (account_id) DO UPDATE SET
        granted = held.granted + excluded.granted,
        adjusted = held.adjusted + excluded.adjusted,
        spent = held.spent + excluded.spent,
        reserved = held.reserved + excluded.reserved,
        month = greatest(held.month, excluded.month),
        month_spent = CASE
            -- A debit of last month that comes late counts for the whole, not for this month.
            WHEN excluded.month IS NULL OR excluded.month < held.month THEN held.month_spent
            WHEN excluded.month = held.month THEN held.month_spent + excluded.month_spent
            ELSE excluded.month_spent
        END;
    RETURN NULL;
END
$$
"""

_FOLLOW_TRIGGER = """
CREATE TRIGGER credit_accounts_follow_the_ledger
AFTER INSERT ON credit_ledger REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION credit_accounts_follow_the_ledger()
"""

# Depth 1 is a client's own statement, depth 2 the ledger's trigger above.
_ONLY_THE_LEDGER = """
CREATE FUNCTION credit_accounts_only_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR (
        pg_trigger_depth() < 2 AND (
            (TG_OP = 'INSERT' AND (NEW.granted, NEW.adjusted, NEW.spent, NEW.reserved, NEW.month_spent)
                IS DISTINCT FROM (0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint))
            OR (TG_OP = 'UPDATE' AND (NEW.granted, NEW.adjusted, NEW.spent, NEW.reserved, NEW.month_spent)
                IS DISTINCT FROM (OLD.granted, OLD.adjusted, OLD.spent, OLD.reserved, OLD.month_spent))
        )
    ) THEN
        RAISE EXCEPTION 'credit_accounts: the sums follow credit_ledger and nothing else (%)', TG_OP
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$
"""

_ONLY_THE_LEDGER_TRIGGER = """
CREATE TRIGGER credit_accounts_only_follow
BEFORE INSERT OR UPDATE OR DELETE ON credit_accounts
FOR EACH ROW EXECUTE FUNCTION credit_accounts_only_follow()
"""

_DEBIT_WHAT_IS_THERE = """
INSERT INTO credit_ledger (account_id, kind, credits, receipt_id, run_id, created_at)
SELECT account_id, 'debit', -charged_credits, id, run_id, created_at
  FROM charge_receipts ORDER BY created_at, id
"""


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "credit_ledger",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=False, comment="What it adds to the account"),
        sa.Column("receipt_id", sa.Uuid(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=True, comment="The caller's own idempotency key"),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "kind IN ('grant', 'adjustment', 'debit', 'reservation', 'release')",
            name=op.f("ck_credit_ledger_kind"),
        ),
        sa.CheckConstraint(
            "(kind = 'debit') = (receipt_id IS NOT NULL)", name=op.f("ck_credit_ledger_debit_has_receipt")
        ),
        sa.CheckConstraint(
            "CASE kind WHEN 'debit' THEN credits <= 0 WHEN 'reservation' THEN credits < 0 "
            "WHEN 'adjustment' THEN credits <> 0 ELSE credits > 0 END",
            name=op.f("ck_credit_ledger_sign"),
        ),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_credit_ledger_account_id")),
        sa.ForeignKeyConstraint(
            ["receipt_id"], ["charge_receipts.id"], name=op.f("fk_credit_ledger_receipt_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credit_ledger")),
        sa.UniqueConstraint("receipt_id", name="uq_credit_ledger_receipt_id"),
        sa.UniqueConstraint("account_id", "reference", name="uq_credit_ledger_reference"),
    )
    op.create_index("ix_credit_ledger_account_id_id", "credit_ledger", ["account_id", "id"])
    op.create_index(
        "ix_credit_ledger_reservations",
        "credit_ledger",
        ["account_id", "run_id"],
        postgresql_where=sa.text("kind IN ('reservation', 'release')"),
    )
    op.create_table(
        "credit_accounts",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("mode", sa.Text(), server_default="postpaid", nullable=False),
        sa.Column("monthly_budget", sa.BigInteger(), nullable=True, comment="Credits a calendar month, UTC"),
        sa.Column("granted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("adjusted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("spent", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("month", sa.Date(), nullable=True, comment="The month of month_spent"),
        sa.Column("month_spent", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "balance",
            sa.BigInteger(),
            sa.Computed("granted + adjusted - spent", persisted=True),
            nullable=False,
        ),
        sa.CheckConstraint("mode IN ('prepaid', 'postpaid')", name=op.f("ck_credit_accounts_mode")),
        sa.CheckConstraint("monthly_budget >= 0", name=op.f("ck_credit_accounts_monthly_budget")),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_credit_accounts_account_id")),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_credit_accounts")),
    )
    for statement in (
        _LEDGER_IS_FINAL,
        _LEDGER_IS_FINAL_TRIGGER,
        _FOLLOW,
        _FOLLOW_TRIGGER,
        _ONLY_THE_LEDGER,
        _ONLY_THE_LEDGER_TRIGGER,
        _DEBIT_WHAT_IS_THERE,
    ):
        op.execute(statement)
