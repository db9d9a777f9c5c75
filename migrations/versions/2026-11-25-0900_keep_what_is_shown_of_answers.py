"""keep what is shown of answers: what the client of a run shows of the answer before it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "e7a2f40b9c35"
down_revision: str | None = "d58e1c2f7a94"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None
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
