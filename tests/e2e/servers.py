"""`runtally serve`, `api` and `worker` in processes of their own, to be killed."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil

from benchmarks.servers import READY_S, until_ready
from tests.e2e.agents import CLAUDE
from tests.e2e.preloaded import start_preloaded
from tests.e2e.stories import KEY, a_client, is_running

ROOT = Path(__file__).parents[2]
_STARTED = re.compile(r'"url": "(\S+)",.*"event": "server.started"')
OF_ITS_OWN = ("env",)
"""`within` for a server whose memory, environment or exit code matters: not forked from another process."""
STOPPED_S = 60.0
"""How long it may take to stop: runs under way get 20 seconds."""


@asynccontextmanager
async def a_server(
    directory: Path,
    provider_url: str,
    *,
    role: str = "serve",
    within: Sequence[str] = (),
    options: Sequence[str] = (),
    agent: str = CLAUDE,
    release: str = str(ROOT),
    **settings: str,
) -> AsyncIterator[tuple[psutil.Process, httpx.AsyncClient]]:
    """A process of this role, with an embedded database unless settings say otherwise, and a client for it.

    `within` is a command that runs it, `options` are its own; `agents.py` has `agent`; `release` the code.
    Only with one of the last three it is started as a child of this process, otherwise forked.
    """
    arguments = [role, "--port", "0", *options]
    environment = an_environment(directory, provider_url, **settings)
    log = directory / "log"
    log.touch()
    logged_before = log.stat().st_size
    # Several processes import what they need on their own.
    if not (within or options) and release == str(ROOT):
        server = await asyncio.to_thread(start_preloaded, arguments, environment, log=log)
    else:
        command = [*within, sys.executable, "-m", "app", *arguments]
        with log.open("ab") as file:
            server = psutil.Popen(command, env=environment, cwd=release, stderr=file)
    try:
        async with a_client(await _url_of(server, log, logged_before), agent=agent) as http:
            await until_ready(http)
            yield server, http
    finally:
        if is_running(server):
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
        "RUNTALLY_IDLE_PROCESSES": "0",
        "RUNTALLY_PARK_AFTER_S": "3600",
        "RUNTALLY_MAX_WRITES_PER_SECOND": "10000",
        **settings,
    }


async def _url_of(server: psutil.Process, log: Path, logged_before: int) -> str:
    """What the server logs once it has started."""
    async with asyncio.timeout(READY_S):
        while True:
            logged = (await asyncio.to_thread(log.read_bytes))[logged_before:].decode()
            if (found := _STARTED.search(logged)) is not None:
                return found[1]
            assert is_running(server), logged
            await asyncio.sleep(0.05)
