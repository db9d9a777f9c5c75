"""validate checks that allow more than those they have replaced: all rows meet them."""

from alembic import op

revision: str = "a94f7be20d63"
down_revision: str | None = "3f8a1c6be052"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: rows are read, and none is locked."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE runs VALIDATE CONSTRAINT ck_runs_status")
    op.execute("ALTER TABLE workspace_files VALIDATE CONSTRAINT ck_workspace_files_origin")
    op.execute("ALTER TABLE webhooks VALIDATE CONSTRAINT ck_webhooks_events")
