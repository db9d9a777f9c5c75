"""claim refreshes of MCP logins: one process at a time uses a refresh token."""

import sqlalchemy as sa
from alembic import op

revision: str = "7c19e4a6b0d3"
down_revision: str | None = "e7a2f40b9c35"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they renew logins without a claim."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "mcp_logins",
        sa.Column(
            "refreshing_until",
            sa.DateTime(timezone=True),
            comment="How long one process alone may use the refresh token",
        ),
    )
