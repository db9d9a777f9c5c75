"""find taken ids: a run whose id is taken is found while the other run is being changed."""

from alembic import op

revision: str = "c3d95e017b2f"
down_revision: str | None = "a7d4e0916b3c"
compatibility: str = "expand"

# Volatile, so that it sees what was committed before it is called, not before its statement.
_HAS_RUN = """
CREATE FUNCTION has_run(account uuid, run text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM runs WHERE account_id = account AND run_id = run);
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they insert without it."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_HAS_RUN)
