"""create charge receipts."""

import sqlalchemy as sa
from alembic import op

revision: str = "c40e7d8a19f3"
down_revision: str | None = "2f6b9c47d512"

_REFUSE = """
CREATE FUNCTION charge_receipts_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'charge_receipts: a receipt is never changed or deleted (%)', TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""

_TRIGGER = """
CREATE TRIGGER charge_receipts_are_final
BEFORE UPDATE OR DELETE OR TRUNCATE ON charge_receipts
FOR EACH STATEMENT EXECUTE FUNCTION charge_receipts_are_final()
"""


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "charge_receipts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("source_system", sa.Text(), nullable=False),
        sa.Column("source_reference", sa.Text(), nullable=False, comment="run_id/attempt/message_id"),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("usage_unit_id", sa.Text(), nullable=False, comment="The message id of the API"),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("executor_type", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_5m_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_1h_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Numeric(20, 10), nullable=False),
        sa.Column("charged_credits", sa.BigInteger(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("output_estimated", sa.Boolean(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("parent_tool_call_id", sa.Text(), nullable=True),
        sa.Column("ingress_request_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "executor_type IN ('claude_sdk', 'messages_api')",
            name=op.f("ck_charge_receipts_executor_type"),
        ),
        sa.CheckConstraint(
            "basis IN ('final', 'partial', 'recovered')", name=op.f("ck_charge_receipts_basis")
        ),
        sa.CheckConstraint(
            "origin IN ('assistant', 'subagent', 'hidden')", name=op.f("ck_charge_receipts_origin")
        ),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_charge_receipts_account_id")),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"], name=op.f("fk_charge_receipts_api_key_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_charge_receipts")),
        sa.UniqueConstraint("source_system", "source_reference", name="uq_charge_receipts_source"),
    )
    op.create_index("ix_charge_receipts_run", "charge_receipts", ["account_id", "run_id", "created_at", "id"])
    op.create_index(
        "ix_charge_receipts_newest",
        "charge_receipts",
        ["account_id", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
    )
    op.execute(_REFUSE)
    op.execute(_TRIGGER)
