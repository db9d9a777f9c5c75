"""drop run_commands: commands go to the process that executes the run."""

from alembic import op

revision: str = "2b7f60d9c3a1"
down_revision: str | None = "8d41c7f20b9e"


def upgrade() -> None:
    """Older servers that still run can no longer pass commands to each other."""
    # Its foreign key locks `runs` as well, only for as long as this takes.
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("run_commands")
