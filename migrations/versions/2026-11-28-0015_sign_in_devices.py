"""sign in devices, and date changes of budgets: what clients of the provider's gateways expect."""

import sqlalchemy as sa
from alembic import op

revision: str = "d10f4a7c2e95"
down_revision: str | None = "c1a7e0d35b92"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they change budgets without a new date."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    now = sa.text("now()")
    op.add_column(
        "budgets", sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=now)
    )
    moment, code = sa.DateTime(timezone=True), sa.LargeBinary
    op.create_table(
        "device_logins",
        sa.Column("device_hash", code, primary_key=True, comment="Of the device code"),
        sa.Column("user_code", sa.Text, nullable=False, unique=True),
        sa.Column("client", sa.Text, nullable=False, comment="What the device calls itself"),
        sa.Column("address", sa.Text, comment="From where the login was requested"),
        sa.Column("created_at", moment, nullable=False, server_default=now),
        sa.Column("expires_at", moment, nullable=False, comment="Of the codes, later of the login"),
        sa.Column("polled_at", moment),
        sa.Column("is_denied", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("api_key_id", sa.Uuid, sa.ForeignKey("api_keys.id", ondelete="CASCADE"), comment="Its own"),
        sa.Column(
            "approved_by",
            sa.Uuid,
            sa.ForeignKey("api_keys.id", ondelete="CASCADE"),
            comment="Key of the person",
        ),
        sa.Column("refresh_seed", code, nullable=False, comment="Each refresh token follows from the last"),
        sa.Column("refresh_hash", code, comment="Null: no token was issued yet"),
        sa.Column("previous_hash", code),
        sa.Column("refreshed_at", moment),
    )
    op.create_index("ix_device_logins_expires_at", "device_logins", ["expires_at"])
    op.create_index("ix_device_logins_api_key_id", "device_logins", ["api_key_id"])
