"""begin sessions at due times: schedules that are deployments of Managed Agents, and their sessions."""

import sqlalchemy as sa
from alembic import op

revision: str = "e3b8d16f2a74"
down_revision: str | None = "a77ac4e01f6d"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: to them a deployment is a schedule like the others."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    comment = "Of Managed Agents: each of its runs begins a session"
    op.add_column("schedules", sa.Column("deployment", sa.JSON, comment=comment))
    comment = "Of a session of Managed Agents: the deployment that began it"
    op.add_column("sessions", sa.Column("deployment_id", sa.Text, comment=comment))
