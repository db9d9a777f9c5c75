"""make statements of finished months."""

import sqlalchemy as sa
from alembic import op

revision: str = "d19a47e6b03c"
down_revision: str | None = "c86e1a72d95b"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they make no statements."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "billing_statements",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False, comment="YYYY-MM, UTC"),
        sa.Column("content", sa.Text(), nullable=False, comment="The JSON that is signed"),
        sa.Column(
            "key", sa.Text(), nullable=True, comment="The id of the key that signed it; null: unsigned"
        ),
        sa.Column("signature", sa.LargeBinary(), nullable=True, comment="Ed25519"),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_billing_statements_account_id")
        ),
        sa.PrimaryKeyConstraint("account_id", "month", name=op.f("pk_billing_statements")),
    )
    op.execute(
        "CREATE TRIGGER billing_statements_is_final BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_statements"
        " FOR EACH STATEMENT EXECUTE FUNCTION chain_is_final()"
    )
