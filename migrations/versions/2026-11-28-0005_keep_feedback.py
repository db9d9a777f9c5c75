"""keep feedback of runs."""

import sqlalchemy as sa
from alembic import op

revision: str = "e3a61f0c84d7"
down_revision: str | None = "d2a7c1e0f4b8"
compatibility: str = "expand"

# An older server that deletes the contents of a run does not know this one.
_DELETE = """
CREATE FUNCTION delete_feedback() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.feedback := NULL;
    RETURN NEW;
END
$$
"""
_TRIGGER = """
CREATE TRIGGER delete_feedback BEFORE UPDATE OF contents_deleted_at ON runs
FOR EACH ROW WHEN (NEW.contents_deleted_at IS NOT NULL AND NEW.feedback IS NOT NULL)
EXECUTE FUNCTION delete_feedback()
"""


def upgrade() -> None:
    """Apply while older servers may still run: they leave the column empty."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("runs", sa.Column("feedback", sa.JSON(), comment="What a person thinks of its answer"))
    op.execute(_DELETE)
    op.execute(_TRIGGER)
