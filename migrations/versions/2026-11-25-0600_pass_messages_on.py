"""pass messages on: those of runs that ended before the model got them; and each run knows its branch."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "f1c6a83be052"
down_revision: str | None = "d58e1c2f7a94"
compatibility: str = "expand"

# The release before does not name the branch: its run is executed where the conversation continues now.
_PLACE_RUN = """
CREATE FUNCTION place_run_on_branch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT session_id INTO new.session_id FROM sessions
     WHERE account_id = new.account_id AND state_key = new.state_key;
    RETURN new;
END
$$
"""
_TRIGGER = """
CREATE TRIGGER place_on_branch BEFORE INSERT ON runs
FOR EACH ROW WHEN (new.session_id IS NULL AND new.state_key IS NOT NULL)
EXECUTE FUNCTION place_run_on_branch()
"""


def upgrade() -> None:
    """Apply while older servers may still run: they pass nothing on."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runs",
        sa.Column(
            "passed_on",
            postgresql.JSON(none_as_null=True),
            comment="The earlier runs whose messages its message begins with",
        ),
    )
    op.create_index(
        "ix_session_entries_runs",
        "session_entries",
        ["project_key", "session_id", "subpath", "run_id", "position"],
    )
    op.execute(_PLACE_RUN)
    op.execute(_TRIGGER)
