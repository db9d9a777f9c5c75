"""keep workspaces: what a turn leaves is what the next one begins with, and equal files are stored once."""

import sqlalchemy as sa
from alembic import op

revision: str = "5c0e9a47d3b1"
down_revision: str | None = "e63a9d0b41c8"
compatibility: str = "expand"

# The release before stores each file in its own row.
_FOLLOW_FILES = """
CREATE OR REPLACE FUNCTION storage_follows_workspace_files() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, -sum(octet_length(content)) FROM removed
         GROUP BY 1 HAVING sum(octet_length(content)) <> 0;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, sum(octet_length(content)) FROM added
         GROUP BY 1 HAVING sum(octet_length(content)) <> 0;
    END IF;
    RETURN NULL;
END
$$
"""
_FOLLOW_CONTENTS = """
CREATE FUNCTION storage_follows_file_contents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, sum(octet_length(content)) FROM added GROUP BY 1;
    ELSE
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, -sum(octet_length(content)) FROM removed GROUP BY 1;
    END IF;
    RETURN NULL;
END
$$
"""
_TRIGGER = """
CREATE TRIGGER storage_follows_{operation} AFTER {operation} ON file_contents REFERENCING {names}
FOR EACH STATEMENT EXECUTE FUNCTION storage_follows_file_contents()
"""
_ROWS = {"INSERT": "NEW TABLE AS added", "DELETE": "OLD TABLE AS removed"}

# Locked first: the second statement sees the files of those that had it locked until then.
_DROP_CONTENTS = """
CREATE FUNCTION drop_unused_file_contents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM file_contents
      WHERE (account_id, sha256) IN (SELECT account_id, sha256 FROM removed)
      ORDER BY account_id, sha256
        FOR UPDATE;
    DELETE FROM file_contents AS unused
     WHERE (account_id, sha256) IN (SELECT account_id, sha256 FROM removed)
       AND NOT EXISTS (SELECT FROM workspace_files AS file
                        WHERE file.account_id = unused.account_id AND file.sha256 = unused.sha256);
    RETURN NULL;
END
$$
"""
_DROP_TRIGGER = """
CREATE TRIGGER drop_unused_file_contents AFTER DELETE ON workspace_files REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION drop_unused_file_contents()
"""


def upgrade() -> None:
    """Apply while older servers may still run: they keep nothing, and share no contents."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "file_contents",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("sha256 = encode(sha256(content), 'hex')", name=op.f("ck_file_contents_sha256")),
        sa.PrimaryKeyConstraint("account_id", "sha256", name=op.f("pk_file_contents")),
    )
    op.add_column(
        "workspaces",
        sa.Column(
            "is_state",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether its files are all that the next turn of its conversation begins with",
        ),
    )
    op.add_column(
        "workspace_files",
        sa.Column("is_executable", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.execute("ALTER TABLE workspace_files DROP CONSTRAINT ck_workspace_files_origin")
    op.execute("COMMENT ON COLUMN workspace_files.content IS 'Empty if it is in `file_contents`'")
    op.execute(
        "ALTER TABLE workspace_files ADD CONSTRAINT ck_workspace_files_origin"
        " CHECK (origin IN ('uploaded', 'created', 'changed', 'kept')) NOT VALID"
    )
    op.create_index("ix_workspace_files_contents", "workspace_files", ["account_id", "sha256"])
    op.execute(_FOLLOW_FILES)
    op.execute(_FOLLOW_CONTENTS)
    for operation, names in _ROWS.items():
        op.execute(_TRIGGER.format(operation=operation, names=names))
    op.execute(_DROP_CONTENTS)
    op.execute(_DROP_TRIGGER)
