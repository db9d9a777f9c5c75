"""keep logins at MCP servers: the tokens that an operator's consent has given, encrypted."""

import sqlalchemy as sa
from alembic import op

revision: str = "b3f70c9d1e52"
down_revision: str | None = "a3f8d2c61b07"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they have no such graphs."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "mcp_logins",
        sa.Column("graph", sa.Text(), nullable=False, comment="The graph's name"),
        sa.Column("server", sa.Text(), nullable=False, comment="The server's name in the graph"),
        sa.Column("version", sa.Integer(), nullable=False, comment="Raised with each refresh"),
        sa.Column(
            "sealed", sa.LargeBinary(), nullable=False, comment="Encrypted with RUNTALLY_MCP_TOKEN_KEY"
        ),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("graph", "server", name=op.f("pk_mcp_logins")),
    )
