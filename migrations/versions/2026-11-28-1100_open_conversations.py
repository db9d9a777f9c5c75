"""open conversations: what clients give to one before its first run, which counts as stored."""

import sqlalchemy as sa
from alembic import op

revision: str = "d9c3e5a17f40"
down_revision: str | None = "d10f4a7c2e95"
compatibility: str = "expand"

_FOLLOW = """
CREATE FUNCTION storage_follows_openings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT old.account_id::text, -octet_length(old.opening::text) WHERE old.opening IS NOT NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT new.account_id::text, octet_length(new.opening::text) WHERE new.opening IS NOT NULL;
    END IF;
    RETURN NULL;
END
$$
"""
# Turns neither change the column nor wait for the function.
_TRIGGERS = {
    "insert": "INSERT ON sessions FOR EACH ROW WHEN (new.opening IS NOT NULL)",
    "update": "UPDATE OF opening ON sessions FOR EACH ROW",
    "delete": "DELETE ON sessions FOR EACH ROW WHEN (old.opening IS NOT NULL)",
}


def upgrade() -> None:
    """Apply while older servers may still run: they start no run in a conversation without an executor."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    comment = "Of a conversation that a client has created: what it was given before its first run"
    op.add_column("sessions", sa.Column("opening", sa.JSON, comment=comment))
    comment = "Who writes it: the first half of graph ids; empty until its first run decides"
    op.alter_column("sessions", "executor", comment=comment)
    op.execute(_FOLLOW)
    for operation, when in _TRIGGERS.items():
        op.execute(
            f"CREATE TRIGGER storage_follows_opening_{operation} AFTER {when}"
            " EXECUTE FUNCTION storage_follows_openings()"
        )
