"""sign persons in."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "b7d2f40c9a61"
down_revision: str | None = "7c52e9a4d1b6"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run.

    They take a person for the whole key: `RUNTALLY_OIDC_ISSUER` is set when none of them runs.
    """
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("browser_sessions", sa.Column("person", JSONB(), comment="Who has signed in; null: a key"))
    op.add_column("browser_sessions", sa.Column("sign_in", sa.LargeBinary(), comment="Hash; of one use"))
    op.create_index("uq_browser_sessions_sign_in", "browser_sessions", ["sign_in"], unique=True)
