"""keep contents of single accounts for a time of their own."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "d2a7c1e0f4b8"
down_revision: str | None = "b7d2f40c9a61"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they keep everything as by default."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    comment = "Days by kind; null or missing: as by default"
    op.add_column("accounts", sa.Column("retention", JSONB(), comment=comment))
    # A sweep reads only what it deletes, also of one account.
    for part in ("contents", "events"):
        has_some = f"{part}_deleted_at IS NULL AND ended_at IS NOT NULL"
        op.create_index(
            f"ix_runs_of_account_with_{part}",
            "runs",
            ["account_id", "ended_at"],
            postgresql_where=sa.text(has_some),
        )
    op.create_index(
        "ix_run_evidence_first",
        "run_evidence",
        ["account_id", "at"],
        postgresql_where=sa.text("position % 1000000 = 1"),
    )
