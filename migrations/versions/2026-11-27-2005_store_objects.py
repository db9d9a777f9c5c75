"""refer to large contents that are stored outside the database."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "b7c41e0d95a8"
down_revision: str | None = "e3a95c2b6d18"
compatibility: str = "expand"

_FOLLOW = """
CREATE FUNCTION storage_follows_stored_objects() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, sum(bytes) FROM added GROUP BY 1;
    ELSE
        INSERT INTO storage_changes (owner, bytes)
        SELECT account_id::text, -sum(bytes) FROM removed GROUP BY 1;
    END IF;
    RETURN NULL;
END
$$
"""
_FOLLOWS = """
CREATE TRIGGER storage_follows_{operation} AFTER {operation} ON stored_objects REFERENCING {names}
FOR EACH STATEMENT EXECUTE FUNCTION storage_follows_stored_objects()
"""
_ROWS = {"INSERT": "NEW TABLE AS added", "DELETE": "OLD TABLE AS removed"}

# A file without content, which no shared content has either.
_USED = """
CREATE FUNCTION used_objects(account uuid, hashes text[]) RETURNS SETOF text STABLE LANGUAGE sql AS $$
    SELECT hash FROM unnest(hashes) AS hash
     WHERE EXISTS (SELECT FROM runs WHERE account_id = account AND objects @> ARRAY[hash])
        OR EXISTS (SELECT FROM session_entries
                    WHERE project_key = account::text AND objects @> ARRAY[hash])
        OR EXISTS (SELECT FROM workspace_files AS file
                    WHERE file.account_id = account AND file.sha256 = hash
                      AND file.bytes > 0 AND octet_length(file.content) = 0)
           AND NOT EXISTS (SELECT FROM file_contents AS shared
                            WHERE shared.account_id = account AND shared.sha256 = hash)
$$
"""

_LET_GO_OF_RUN = """
CREATE FUNCTION let_go_of_objects_of_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stored_objects SET check_at = coalesce(check_at, now() + interval '1 minute')
     WHERE account_id = OLD.account_id AND sha256 = ANY (OLD.objects);
    RETURN NULL;
END
$$
"""
_LET_GO_OF_ENTRY = """
CREATE FUNCTION let_go_of_objects_of_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stored_objects SET check_at = coalesce(check_at, now() + interval '1 minute')
     WHERE account_id = OLD.project_key::uuid AND sha256 = ANY (OLD.objects);
    RETURN NULL;
END
$$
"""
_LET_GO_OF_FILES = """
CREATE FUNCTION let_go_of_objects_of_files() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stored_objects AS object SET check_at = coalesce(check_at, now() + interval '1 minute')
      FROM (SELECT DISTINCT account_id, sha256 FROM removed
             WHERE bytes > 0 AND octet_length(content) = 0) AS file
     WHERE object.account_id = file.account_id AND object.sha256 = file.sha256;
    RETURN NULL;
END
$$
"""
_LETS_GO = """
CREATE TRIGGER let_go_of_objects AFTER DELETE OR UPDATE OF objects ON runs
FOR EACH ROW WHEN (old.objects IS NOT NULL) EXECUTE FUNCTION let_go_of_objects_of_run();
CREATE TRIGGER let_go_of_objects AFTER DELETE ON session_entries
FOR EACH ROW WHEN (old.objects IS NOT NULL) EXECUTE FUNCTION let_go_of_objects_of_entry();
CREATE TRIGGER let_go_of_deleted AFTER DELETE ON workspace_files REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION let_go_of_objects_of_files();
CREATE TRIGGER let_go_of_replaced AFTER UPDATE ON workspace_files REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION let_go_of_objects_of_files();
"""


def upgrade() -> None:
    """Apply while older servers may still run, none of which stores contents outside."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "stored_objects",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column(
            "check_at",
            sa.DateTime(timezone=True),
            comment="When it is deleted, unless something refers to it then",
        ),
        sa.PrimaryKeyConstraint("account_id", "sha256", name=op.f("pk_stored_objects")),
    )
    op.create_index(
        "ix_stored_objects_check_at",
        "stored_objects",
        ["check_at"],
        postgresql_where=sa.text("check_at IS NOT NULL"),
    )
    for table in ("runs", "session_entries"):
        comment = "The SHA-256 of its strings that are stored outside"
        op.add_column(table, sa.Column("objects", postgresql.ARRAY(sa.Text()), comment=comment))
        op.create_index(
            f"ix_{table}_objects",
            table,
            ["objects"],
            postgresql_using="gin",
            postgresql_where=sa.text("objects IS NOT NULL"),
        )
    op.execute(
        "COMMENT ON COLUMN workspace_files.content"
        " IS 'Empty if it is in `file_contents` or outside the database'"
    )
    op.execute(_FOLLOW)
    for operation, names in _ROWS.items():
        op.execute(_FOLLOWS.format(operation=operation, names=names))
    for statement in (_USED, _LET_GO_OF_RUN, _LET_GO_OF_ENTRY, _LET_GO_OF_FILES):
        op.execute(statement)
    for statement in _LETS_GO.strip().removesuffix(";").split(";\n"):
        op.execute(statement)
