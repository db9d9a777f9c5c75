"""keep times of events: when each event of a run was produced."""

import sqlalchemy as sa
from alembic import op

revision: str = "d58e1c2f7a94"
down_revision: str | None = "b3f70c9d1e52"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: what they store has no times."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "run_events",
        sa.Column("at", sa.DateTime(timezone=True), comment="When the first of them was produced"),
    )
    op.add_column(
        "run_events",
        sa.Column("gaps", sa.LargeBinary(), comment="Of several: the milliseconds between each and the next"),
    )
