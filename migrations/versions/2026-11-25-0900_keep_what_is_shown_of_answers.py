"""keep what is shown of answers: what the client of a run shows of the answer before it."""

import sqlalchemy as sa
from alembic import op

revision: str = "e7a2f40b9c35"
down_revision: str | None = "f1c6a83be052"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they pass on whole answers."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runs",
        sa.Column(
            "shown_answer",
            sa.JSON(),
            comment="What its client shows of the answer before it, if that may not be all",
        ),
    )
