"""count storage."""

import sqlalchemy as sa
from alembic import op

revision: str = "7be2904ad1f6"
down_revision: str | None = "c41d7f0e92ab"

_SIZES = {
    "runs": "coalesce(octet_length(request::text), 0) + coalesce(octet_length(final::text), 0)",
    "run_events": "octet_length(data::text)",
    "session_entries": "octet_length(entry::text)",
}
_OWNERS = {
    "runs": "account_id::text",
    "run_events": "account_id::text",
    "session_entries": "project_key",
    "workspace_files": "account_id::text",
}

_COUNT = "INSERT INTO storage_changes (owner, bytes) SELECT {owner}, sum(bytes) FROM {table} GROUP BY 1"

# In the rows' own transaction and without waiting: one row per statement, summed later.
_FOLLOW = """
CREATE FUNCTION storage_follows_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT {owner}, -sum(bytes) FROM removed GROUP BY 1 HAVING sum(bytes) <> 0;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT {owner}, sum(bytes) FROM added GROUP BY 1 HAVING sum(bytes) <> 0;
    END IF;
    RETURN NULL;
END
$$
"""
_TRIGGER = """
CREATE TRIGGER storage_follows_{operation}
AFTER {operation} ON {table} REFERENCING {names}
FOR EACH STATEMENT EXECUTE FUNCTION storage_follows_{table}()
"""
_ROWS = {"INSERT": "NEW TABLE AS added", "DELETE": "OLD TABLE AS removed"}

# Most updates of a run do not change its size.
_FOLLOW_A_RUN = """
CREATE FUNCTION storage_follows_a_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO storage_changes (owner, bytes) VALUES (new.account_id::text, new.bytes - old.bytes);
    RETURN NULL;
END
$$
"""
_RUN_TRIGGER = """
CREATE TRIGGER storage_follows_update AFTER UPDATE ON runs
FOR EACH ROW WHEN (old.bytes IS DISTINCT FROM new.bytes) EXECUTE FUNCTION storage_follows_a_run()
"""


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "storage_changes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False, comment="The account's id"),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="Added, or taken away where negative"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storage_changes")),
    )
    op.create_index("ix_storage_changes_owner", "storage_changes", ["owner"])
    op.add_column("runs", sa.Column("contents_deleted_at", sa.DateTime(timezone=True)))
    op.create_index(
        "ix_runs_with_contents",
        "runs",
        ["ended_at"],
        postgresql_where=sa.text("contents_deleted_at IS NULL"),
    )
    for table, size in _SIZES.items():
        op.add_column(table, sa.Column("bytes", sa.BigInteger(), sa.Computed(size, persisted=True)))
    for table, owner in _OWNERS.items():
        op.execute(_COUNT.format(table=table, owner=owner))
        op.execute(_FOLLOW.format(table=table, owner=owner))
        for operation, names in _ROWS.items():
            op.execute(_TRIGGER.format(table=table, operation=operation, names=names))
    both = "OLD TABLE AS removed NEW TABLE AS added"
    op.execute(_TRIGGER.format(table="workspace_files", operation="UPDATE", names=both))
    op.execute(_FOLLOW_A_RUN)
    op.execute(_RUN_TRIGGER)
