"""`runtally serve` in processes of their own, to be killed."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil

from tests.e2e.stories import KEY, a_client

ROOT = Path(__file__).parents[2]
READY_S = 60.0
"""How long a server may take to start on a machine that has other things to do."""
STOPPED_S = 60.0
"""How long it may take to stop: runs under way get 20 seconds."""


@asynccontextmanager
async def a_server(
    directory: Path, provider_url: str, *, within: Sequence[str] = (), **settings: str
) -> AsyncIterator[tuple[psutil.Process, httpx.AsyncClient]]:
    """A server with its embedded database unless settings say otherwise, and a client for it.

    `within` is a command that runs it.
    """
    port = await asyncio.to_thread(_free_port)
    command = [*within, sys.executable, "-m", "app", "serve", "--port", str(port)]
    environment = an_environment(directory, provider_url, **settings)
    with (directory / "log").open("ab") as log:
        server = psutil.Popen(command, env=environment, cwd=ROOT, stderr=log)
    try:
        async with a_client(f"http://127.0.0.1:{port}") as http:
            await _until_ready(http)
            yield server, http
    finally:
        if server.is_running() and server.status() != psutil.STATUS_ZOMBIE:
            server.terminate()
        await asyncio.to_thread(server.wait, STOPPED_S)


def an_environment(directory: Path, provider_url: str, **settings: str) -> dict[str, str]:
    """The whole environment of a server."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "COLUMNS": "200",
        "RUNTALLY_DATA_DIR": str(directory),
        "RUNTALLY_BOOTSTRAP_KEY": KEY,
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": provider_url,
        "RUNTALLY_WARM_POOL": "0",
        **settings,
    }


async def _until_ready(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            try:
                if (await http.get("/readyz")).is_success:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
