"""grant runs:approve to keys that could decide about tool calls with runs:write."""

from alembic import op

revision: str = "8b41d6e90c27"
down_revision: str | None = "b2f4d81c6e07"


def upgrade() -> None:
    """Apply while older servers may still run: they ignore unknown scopes."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(
        "UPDATE api_keys SET scopes = array_append(scopes, 'runs:approve') "
        "WHERE 'runs:write' = ANY (scopes) AND NOT 'runs:approve' = ANY (scopes)"
    )
