"""Runtally in a process of its own, as an operator runs it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil

from app.auth.keys import mint_key
from app.platform.embedded.ports import free_port

READY_S = 120.0
"""How long a server may take to start on a machine that has other things to do."""

TIMEOUT_S = 120.0

UNLIMITED = {
    "RUNTALLY_MAX_WRITES_PER_SECOND": "100000",
    "RUNTALLY_MAX_READERS_PER_KEY": "4000",
    "RUNTALLY_MAX_CONNECTIONS_PER_ADDRESS": "4000",
    "RUNTALLY_MAX_CONNECTIONS": "8000",
    "RUNTALLY_MAX_QUEUED_RUNS": "4000",
}
"""Settings of a server with one client that is many."""


@asynccontextmanager
async def running_server(
    model_url: str, directory: Path, *, idle: int, **settings: str
) -> AsyncIterator[tuple[httpx.AsyncClient, psutil.Process]]:
    """`runtally serve` with its embedded database; yields a client and the process.

    `idle` is the number of CLI processes that it keeps. Its data is in `directory`.
    """
    settings["RUNTALLY_IDLE_PROCESSES"] = str(idle)
    async with _running(model_url, directory / f"data-{idle}", settings) as server:
        yield server


@asynccontextmanager
async def running_processes(
    model_url: str, directory: Path, count: int, settings: Mapping[str, str]
) -> AsyncIterator[tuple[httpx.AsyncClient, psutil.Process]]:
    """The same with so many server processes, which keep no CLI processes."""
    chosen, options = {**settings, "RUNTALLY_IDLE_PROCESSES": "0"}, ("--processes", str(count))
    async with _running(model_url, directory, chosen, options) as server:
        yield server


@asynccontextmanager
async def _running(
    model_url: str, data: Path, settings: Mapping[str, str], options: Sequence[str] = ()
) -> AsyncIterator[tuple[httpx.AsyncClient, psutil.Process]]:
    key = mint_key()
    data.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - before anything is measured
    environment = server_environment(data, model_url, key, **settings)
    port = free_port()
    command = [sys.executable, "-m", "app", "serve", "--port", str(port), *options]
    with (data / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stderr=log)  # noqa: ASYNC220
    try:
        async with client(f"http://127.0.0.1:{port}", key) as http:
            await until_ready(http)
            yield http, psutil.Process(server.pid)
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


def server_environment(data: Path, model_url: str, key: str, **settings: str) -> dict[str, str]:
    """The whole environment of a server."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(data),
        "ANTHROPIC_API_KEY": "simulated",
        "ANTHROPIC_BASE_URL": model_url,
        "RUNTALLY_DATA_DIR": str(data),
        "RUNTALLY_BOOTSTRAP_KEY": key,
        **settings,
    }


def client(url: str, key: str) -> httpx.AsyncClient:
    """A client with as many connections as it needs."""
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=TIMEOUT_S,
        limits=httpx.Limits(max_connections=None),
        trust_env=False,
    )


async def receipts(http: httpx.AsyncClient) -> dict[str, tuple[int, int]]:
    """Input and output tokens of every receipt, by message; raises `ValueError` if a message has two."""
    found: dict[str, tuple[int, int]] = {}
    parameters = {"limit": "200"}
    while True:
        page = (await http.get("/v1/receipts", params=parameters)).raise_for_status().json()
        for receipt in page["items"]:
            if receipt["usageUnitId"] in found:
                message = f"{receipt['usageUnitId']} has two receipts"
                raise ValueError(message)
            found[receipt["usageUnitId"]] = (receipt["inputTokens"], receipt["outputTokens"])
        if page["nextCursor"] is None:
            return found
        parameters["cursor"] = page["nextCursor"]


async def until_ready(http: httpx.AsyncClient) -> None:
    """Wait until a server has started."""
    async with asyncio.timeout(READY_S):
        while True:
            try:
                if (await http.get("/readyz")).is_success:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.05)
