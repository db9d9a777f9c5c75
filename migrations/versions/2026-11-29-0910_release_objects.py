"""release objects: what lets go of a content notes that, and does not change the row of the content."""

import sqlalchemy as sa
from alembic import op

revision: str = "d8b1f6407e29"
down_revision: str | None = "c3d95e017b2f"
compatibility: str = "expand"

# Rows of contents would be locked in the order of the deletions: two of them could wait for each other.
_LET_GO = """
CREATE OR REPLACE FUNCTION let_go_of_objects_of_{what}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO released_objects (account_id, sha256) {released};
    RETURN NULL;
END
$$
"""
_RELEASED = {
    "run": "SELECT OLD.account_id, unnest(OLD.objects)",
    "entry": "SELECT OLD.project_key::uuid, unnest(OLD.objects)",
    "files": "SELECT DISTINCT account_id, sha256 FROM removed JOIN stored_objects USING (account_id, sha256)"
    " WHERE removed.bytes > 0 AND octet_length(removed.content) = 0",
}


def upgrade() -> None:
    """Apply while older servers may still run; what is released meanwhile the newer ones delete."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "released_objects",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_released_objects")),
        comment="Contents to which one reference less leads",
    )
    for what, released in _RELEASED.items():
        op.execute(_LET_GO.format(what=what, released=released))
