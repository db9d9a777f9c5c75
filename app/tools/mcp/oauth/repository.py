"""SQL for logins at external MCP servers."""

from datetime import timedelta

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from app.platform.db import Reader, Transaction
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
    new = {"sealed": sealed, "updated_at": func.clock_timestamp(), "refreshing_until": None}
    query = insert(mcp_logins).values(graph=key.graph, server=key.server, version=1, **new)
    query = query.on_conflict_do_update(
        index_elements=[mcp_logins.c.graph, mcp_logins.c.server],
        set_={**new, "version": mcp_logins.c.version + 1},
    )
    await tx.execute(query)


async def claim_refresh(tx: Transaction, key: LoginKey, *, version: int, claim: timedelta) -> bool:
    """Be the only process that uses the refresh token of this version; False if another one is, or was."""
    now = func.clock_timestamp()
    is_free = or_(mcp_logins.c.refreshing_until.is_(None), mcp_logins.c.refreshing_until < now)
    query = (
        update(mcp_logins)
        .where(_is_version(key, version), is_free)
        .values(refreshing_until=now + claim)
        .returning(mcp_logins.c.version)
    )
    return (await tx.execute(query)).one_or_none() is not None


async def release_refresh(tx: Transaction, key: LoginKey, *, version: int) -> None:
    """Let others use the refresh token of this version."""
    await tx.execute(update(mcp_logins).where(_is_version(key, version)).values(refreshing_until=None))


async def renew_login(tx: Transaction, key: LoginKey, sealed: bytes, *, version: int) -> None:
    """Keep a login that was renewed, unless another process has changed it since this version."""
    new = {"sealed": sealed, "updated_at": func.clock_timestamp(), "refreshing_until": None}
    await tx.execute(update(mcp_logins).where(_is_version(key, version)).values(**new, version=version + 1))


def _is_version(key: LoginKey, version: int) -> ColumnElement[bool]:
    return and_(
        mcp_logins.c.graph == key.graph, mcp_logins.c.server == key.server, mcp_logins.c.version == version
    )
