"""PgBouncer before PostgreSQL, for a role that owns nothing but its schema."""

import asyncio
import os
import socket
from asyncio.subprocess import STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg

from app.platform.db import Database
from app.platform.embedded.ports import free_port
from tests import programs
from tests.e2e.stories import until
from tests.patience import PATIENCE_S

_FILE = """
[databases]
* = host={host} port={server_port} user={role} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {connections}
max_client_conn = 500
"""


@asynccontextmanager
async def opened(
    directory: Path, database_url: str, provider_url: str, *, mode: str = "transaction"
) -> AsyncIterator[dict[str, str]]:
    """In transaction mode the database is polled for what is ready; session mode passes notifications on."""
    del provider_url
    async with a_role(database_url) as url, a_pgbouncer(directory, url, mode=mode) as pooled_url:
        database = await Database.open(pooled_url)
        await database.migrate()
        await database.aclose()
        direct = {"DATABASE_DIRECT_URL": pooled_url} if mode == "session" else {}
        yield {"DATABASE_URL": pooled_url, **direct}


@asynccontextmanager
async def a_role(server_url: str) -> AsyncIterator[str]:
    """A role of its own that owns a schema of its name in an empty database; yields its URL."""
    role = password = f"owner_{uuid4().hex}"
    parts = urlsplit(server_url)
    address = f"{parts.hostname}:{parts.port}/{role}"
    admin = await asyncpg.connect(server_url)
    await admin.execute(f"CREATE DATABASE {role}")
    await admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
    owner = await asyncpg.connect(f"postgresql://{parts.username}:{parts.password}@{address}")
    await owner.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}")
    await owner.close()
    try:
        yield f"postgresql://{role}:{password}@{address}"
    finally:
        await admin.execute(f"DROP DATABASE {role} WITH (FORCE)")
        await admin.execute(f"DROP ROLE {role}")
        await admin.close()


@asynccontextmanager
async def a_pgbouncer(directory: Path, url: str, *, mode: str) -> AsyncIterator[str]:
    """PgBouncer before this server, which it enters as this role; yields the URL that leads through it."""
    programs.require("pgbouncer")
    parts, port = urlsplit(url), free_port()
    file = directory / "pgbouncer.ini"
    file.write_text(
        _FILE.format(
            host=parts.hostname,
            server_port=parts.port,
            role=parts.username,
            password=parts.password,
            port=port,
            mode=mode,
            # In session mode each connection of a client has one of the server as long as it is open.
            connections=40 if mode == "session" else 6,
        )
    )
    command = ["pgbouncer", *(["-u", "nobody"] if os.getuid() == 0 else []), str(file)]
    with (directory / "pgbouncer.log").open("wb") as log:
        pooler = await asyncio.create_subprocess_exec(
            *command, env={"PATH": os.environ["PATH"] + ":/usr/sbin"}, stdout=log, stderr=STDOUT
        )
    try:
        await until(lambda: pooler.returncode is not None or _listens(port))
        assert pooler.returncode is None, (directory / "pgbouncer.log").read_text()
        yield f"postgresql://{parts.username}:{parts.password}@127.0.0.1:{port}{parts.path}"
    finally:
        if pooler.returncode is None:
            pooler.terminate()
        async with asyncio.timeout(PATIENCE_S):
            await pooler.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
