"""index years: what summarizes receipts and rollups by time covers the newest, too."""

from alembic import op

revision: str = "e1b7d25c9a03"
down_revision: str | None = "e3b8d16f2a74"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    # By default only a vacuum summarizes new pages, which comes after a fifth of all receipts; until then
    # every search by time reads them.
    for name in ("ix_charge_receipts_used_at", "ix_fenced_receipts_used_at"):
        op.execute(f"ALTER INDEX {name} SET (autosummarize = on)")
        op.execute(f"SELECT brin_summarize_new_values('{name}')")
    # Last: nothing is stored in the rollups while it is made, which takes seconds for millions.
    op.create_index(
        "ix_usage_rollups_bucket",
        "usage_rollups",
        ["bucket"],
        postgresql_using="brin",
        postgresql_with={"autosummarize": "on"},
    )
