"""mirror schedules: what Temporal has of each, and which it has although they are deleted."""

import sqlalchemy as sa
from alembic import op

revision: str = "c4a90e62d185"
down_revision: str | None = "8d41e6b7f230"

_RAISE = """
CREATE FUNCTION raise_schedule_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    new.revision := old.revision + 1;
    RETURN new;
END
$$
"""
_MIRRORED = ("cron", "time_zone", "start_at", "end_at", "catch_up_s", "paused_reason")
_TRIGGER = f"""
CREATE TRIGGER raise_revision BEFORE UPDATE ON schedules
FOR EACH ROW WHEN (({", ".join(f"old.{name}" for name in _MIRRORED)})
    IS DISTINCT FROM ({", ".join(f"new.{name}" for name in _MIRRORED)}))
EXECUTE FUNCTION raise_schedule_revision()
"""


def upgrade() -> None:
    """Apply while older servers may still run: what they change raises the revision as well."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "schedules",
        sa.Column(
            "revision", sa.Integer(), nullable=False, server_default="1", comment="Of what Temporal gets"
        ),
    )
    op.add_column(
        "schedules",
        sa.Column(
            "mirrored_revision",
            sa.Integer(),
            nullable=False,
            server_default="0",
            comment="The latest that Temporal got; 0: none, -1: not known",
        ),
    )
    op.create_index(
        "ix_schedules_unmirrored",
        "schedules",
        ["id"],
        postgresql_where=sa.text("revision <> mirrored_revision"),
    )
    op.create_table(
        "deleted_schedules",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Temporal still has it"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deleted_schedules")),
    )
    op.execute(_RAISE)
    op.execute(_TRIGGER)
