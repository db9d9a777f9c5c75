"""Tinyproxy, which wants a password, on the only way to the provider; with a private authority."""

import asyncio
import os
from asyncio.subprocess import STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.platform.embedded.ports import free_port
from tests import programs
from tests.authority import Authority
from tests.e2e.stories import until
from tests.integration.proxies import listens
from tests.outgoing_proxy import ConnectProxy, listening, over_tls
from tests.patience import PATIENCE_S

PROVIDER = "provider.test"
PASSWORD = "proxy-password-nobody-may-see"
_FILE = """
Port {port}
Listen 127.0.0.1
BasicAuth runtally {password}
ConnectPort 443
Upstream http 127.0.0.1:{upstream} ".test"
LogLevel Critical
"""


@asynccontextmanager
async def opened(directory: Path, database_url: str, provider_url: str) -> AsyncIterator[dict[str, str]]:
    """The provider has a name that only the proxy knows; so has `database_url` its usual address."""
    authority, port = Authority(directory), free_port()
    async with (
        over_tls(provider_url, authority.certificate(PROVIDER)) as provider,
        # What a name server would be for Tinyproxy.
        listening(ConnectProxy({PROVIDER: provider})) as names,
        a_tinyproxy(directory, port, names.port),
    ):
        yield {
            "DATABASE_URL": database_url,
            "ANTHROPIC_BASE_URL": f"https://{PROVIDER}",
            "RUNTALLY_HTTPS_PROXY": f"http://runtally:{PASSWORD}@127.0.0.1:{port}",
            "RUNTALLY_CA_FILE": str(authority.file),
        }


@asynccontextmanager
async def a_tinyproxy(directory: Path, port: int, upstream: int) -> AsyncIterator[None]:
    """Serve on this port; another proxy leads to names that end in `.test`."""
    programs.require("tinyproxy")
    file = directory / "tinyproxy.conf"
    file.write_text(_FILE.format(port=port, upstream=upstream, password=PASSWORD))
    with (directory / "tinyproxy.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *("tinyproxy", "-d", "-c", str(file)), env={"PATH": os.environ["PATH"]}, stdout=log, stderr=STDOUT
        )
    try:
        await until(lambda: process.returncode is not None or listens(port))
        assert process.returncode is None, (directory / "tinyproxy.log").read_text()
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            await process.wait()
