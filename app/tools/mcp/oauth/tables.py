"""Logins at external MCP servers."""

from sqlalchemy import Column, Integer, LargeBinary, Table, Text

from app.platform.db import UtcDateTime, metadata

mcp_logins = Table(
    "mcp_logins",
    metadata,
    Column("graph", Text, primary_key=True, comment="The graph's name"),
    Column("server", Text, primary_key=True, comment="The server's name in the graph"),
    Column("version", Integer, nullable=False, comment="Raised with each refresh"),
    Column("sealed", LargeBinary, nullable=False, comment="Encrypted with RUNTALLY_MCP_TOKEN_KEY"),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("refreshing_until", UtcDateTime, comment="How long one process alone may use the refresh token"),
)
