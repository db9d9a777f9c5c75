"""create reconciliations: receipts compared with the provider's own reports."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "c41b7f02a9d5"
down_revision: str | None = "3d7a60f1b9c4"

_TIME = sa.DateTime(timezone=True)
_USD = sa.Numeric(24, 10)
_UNIT_USD = sa.Numeric(30, 18)
_DIMENSIONS = ("model", "inference_geo", "service_tier", "speed", "context_window")


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    # Receipts of all accounts in the order of time: small, and almost free to maintain.
    op.create_index("ix_charge_receipts_used_at", "charge_receipts", ["used_at"], postgresql_using="brin")
    op.add_column(
        "accounts",
        sa.Column("provider_profile_id", sa.Text(), nullable=True, comment="The provider's user profile"),
    )
    op.create_index("uq_accounts_provider_profile_id", "accounts", ["provider_profile_id"], unique=True)
    _create_reconciliations()
    _create_differences()
    op.create_table(
        "gateway_calls",
        sa.Column("minute", _TIME, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("sent", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False, comment="The provider responded with an error"),
        sa.PrimaryKeyConstraint("minute", "model", name=op.f("pk_gateway_calls")),
    )
    op.create_table(
        "unbilled_messages",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("used_at", _TIME, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("counts", JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unbilled_messages")),
    )
    op.create_index(op.f("ix_unbilled_messages_used_at"), "unbilled_messages", ["used_at"])


def _create_reconciliations() -> None:
    op.create_table(
        "reconciliations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("window_start", _TIME, nullable=False),
        sa.Column("window_end", _TIME, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", _TIME, nullable=False),
        sa.Column("lease_until", _TIME, nullable=False, comment="A running one is dead after this"),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("summary", JSONB(), nullable=False, server_default="{}"),
        sa.CheckConstraint(
            "state IN ('running', 'complete', 'failed')", name=op.f("ck_reconciliations_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reconciliations")),
    )
    op.create_index(
        "uq_reconciliations_running",
        "reconciliations",
        ["state"],
        unique=True,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "reconciled_usage",
        sa.Column("hour", _TIME, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("reconciliation_id", sa.Uuid(), nullable=False),
        *(
            sa.Column(name, _USD, nullable=False)
            for name in ("reported_usd", "recorded_usd", "unexplained_usd", "foreign_usd")
        ),
        sa.Column("listed_usd", _USD, nullable=True),
        sa.Column("receipts", sa.BigInteger(), nullable=False),
        sa.Column("differences", sa.Integer(), nullable=False),
        sa.Column("unexplained", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "model", name=op.f("pk_reconciled_usage")),
        _foreign_key("reconciled_usage", "reconciliation_id", "reconciliations"),
    )


def _create_differences() -> None:
    op.create_table(
        "reconciliation_differences",
        *_columns_of_a_difference("reconciliation_differences"),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("explained", sa.Boolean(), nullable=False),
        sa.Column("counts", JSONB(), nullable=False, comment="Reported minus recorded"),
        sa.Column("amount_usd", _USD, nullable=True),
        sa.Column("lines", JSONB(), nullable=False),
        sa.Column("api_key_id", sa.Text(), nullable=True),
        sa.Column("account_id", sa.Uuid(), nullable=True),
        sa.Column("evidence", JSONB(), nullable=False),
        _foreign_key("reconciliation_differences", "account_id", "accounts"),
    )
    op.create_table(
        "price_differences",
        *_columns_of_a_difference("price_differences"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("provider_unit_usd", _UNIT_USD, nullable=False),
        sa.Column("own_unit_usd", _UNIT_USD, nullable=True),
        sa.Column("price_version", sa.Text(), nullable=False),
        sa.Column("amount_usd", _USD, nullable=False, comment="The proposed adjustment"),
        sa.Column("source", sa.Text(), nullable=False),
    )
    for table in ("reconciliation_differences", "price_differences"):
        op.create_index(
            f"ix_{table}_current",
            table,
            ["starting_at", "id"],
            postgresql_where=sa.text("superseded_by IS NULL"),
        )


def _columns_of_a_difference(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("reconciliation_id", sa.Uuid(), nullable=False),
        sa.Column("starting_at", _TIME, nullable=False),
        sa.Column("ending_at", _TIME, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _DIMENSIONS),
        sa.Column("found_at", _TIME, nullable=False, server_default=sa.text("clock_timestamp()")),
        sa.Column("superseded_by", sa.Uuid(), nullable=True, comment="A later comparison"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        _foreign_key(table, "reconciliation_id", "reconciliations"),
        _foreign_key(table, "superseded_by", "reconciliations"),
    ]


def _foreign_key(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=op.f(f"fk_{table}_{column}"))
