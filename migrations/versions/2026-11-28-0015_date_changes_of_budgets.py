"""date changes of budgets: what clients of spend limits read."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "d10f4a7c2e95"
down_revision: str | None = "c1a7e0d35b92"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they change budgets without a new date."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    now = sa.text("now()")
    op.add_column(
        "budgets", sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=now)
    )
