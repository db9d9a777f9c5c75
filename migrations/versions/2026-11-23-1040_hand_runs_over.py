"""hand runs over: processes have roles, and one that stops gives its runs to the others."""

import sqlalchemy as sa
from alembic import op

revision: str = "6b1d84f0a7c3"
down_revision: str | None = "c3a97d52e816"

_LIVE_PLACES = """
CREATE OR REPLACE FUNCTION live_places() RETURNS int LANGUAGE sql STABLE AS $$
    -- A process that stops executes what it has: otherwise those runs would use up the places of others.
    SELECT coalesce(sum(CASE WHEN draining THEN taken ELSE places END), 0)::int FROM workers
     WHERE seen_at > now() - make_interval(secs => 2 * lease_s)
$$
"""


def upgrade() -> None:
    """May be applied while older servers run: those write rows without a role, and do everything."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "workers",
        sa.Column("role", sa.Text(), nullable=False, server_default="serve", comment="serve, api or worker"),
    )
    op.add_column(
        "run_takeovers",
        sa.Column(
            "handed_over",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="Whether the process gave the run away itself, because it stopped",
        ),
    )
    op.execute(_LIVE_PLACES)
