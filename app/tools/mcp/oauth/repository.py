"""SQL for logins at external MCP servers."""

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from app.db import Reader, Transaction
from app.tools.mcp.oauth.records import LoginKey
from app.tools.mcp.oauth.tables import mcp_logins


async def sealed_login(reader: Reader, key: LoginKey) -> tuple[bytes, int] | None:
    """The encrypted login and its version."""
    query = select(mcp_logins.c.sealed, mcp_logins.c.version).where(
        mcp_logins.c.graph == key.graph, mcp_logins.c.server == key.server
    )
    row = (await reader.execute(query)).one_or_none()
    return None if row is None else (row.sealed, row.version)


async def set_login(tx: Transaction, key: LoginKey, sealed: bytes) -> None:
    """Keep a login, instead of an earlier one."""
    new = {"sealed": sealed, "updated_at": func.clock_timestamp()}
    query = insert(mcp_logins).values(graph=key.graph, server=key.server, version=1, **new)
    query = query.on_conflict_do_update(
        index_elements=[mcp_logins.c.graph, mcp_logins.c.server],
        set_={**new, "version": mcp_logins.c.version + 1},
    )
    await tx.execute(query)


async def renew_login(tx: Transaction, key: LoginKey, sealed: bytes, *, version: int) -> None:
    """Keep a login that was renewed, unless another process has changed it since this version."""
    query = (
        update(mcp_logins)
        .where(
            mcp_logins.c.graph == key.graph,
            mcp_logins.c.server == key.server,
            mcp_logins.c.version == version,
        )
        .values(sealed=sealed, version=version + 1, updated_at=func.clock_timestamp())
    )
    await tx.execute(query)
