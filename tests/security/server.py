"""A server to attack: a process of its own, its accounts, and what an attack does to it."""

import asyncio
import json
import statistics
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from app.auth.accounts import Accounts
from app.cli.addresses import listen, url_of
from app.cli.serve import served
from app.platform.db import Database
from app.requests.principal import SCOPES
from tests.e2e.agents import MESSAGES
from tests.e2e.servers import ROOT, a_server
from tests.e2e.stories import KEY, a_client, the_settings
from tests.patience import PATIENCE_S
from tests.security.probe import LONGEST_S
from tests.security.tenant import ADDRESS as GOOD_ADDRESS
from tests.security.tenant import Outcome

TENANT = tuple(scope for scope in SCOPES if scope != "admin")
"""What the key of a usual account may do."""
ASSISTANT = f"{MESSAGES}:assistant"
"""Runs of the clients below are those of this executor: who may do what does not depend on it."""
RSS_EVERY_S = 0.05


@dataclass(slots=True)
class Watched:
    """What came of a server while it was attacked."""

    healthz: list[tuple[float, float]] = field(default_factory=list)
    """What each `/healthz` took, in seconds and in CPU of the server; filled in at the end."""
    rss_bytes: list[int] = field(default_factory=list)

    @property
    def worst_s(self) -> float:
        """The slowest `/healthz`."""
        return max(seconds for seconds, _ in self.healthz)

    @property
    def worst_cpu_s(self) -> float:
        """The most the server did before it answered a `/healthz`."""
        return max(cpu for _, cpu in self.healthz)

    @property
    def median_cpu_s(self) -> float:
        """What it usually did before."""
        return statistics.median(cpu for _, cpu in self.healthz)

    @property
    def peak_bytes(self) -> int:
        """The most memory the server's process had."""
        return max(self.rss_bytes)

    @property
    def grown_bytes(self) -> int:
        """How much more that is than at the beginning."""
        return self.peak_bytes - self.rss_bytes[0]


@dataclass(slots=True)
class Used:
    """What became of the runs of a well-behaved tenant; filled in at the end."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def started_s(self) -> list[float]:
        """How long each run that started took to."""
        return [started for started, _, _ in self.outcomes if started is not None]

    @property
    def done_s(self) -> list[float]:
        """How long each run that was answered took."""
        return [done for _, done, _ in self.outcomes if done is not None]


@dataclass(frozen=True, slots=True)
class Target:
    """A running server."""

    url: str
    process: psutil.Process
    database_url: str
    directory: Path
    """Its data directory; `log` in it is what it has logged."""

    @property
    def host(self) -> str:
        """Its address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port."""
        return urlsplit(self.url).port or 0

    @property
    def rss_bytes(self) -> int:
        """The memory of the server's process alone."""
        rss: int = self.process.memory_info().rss
        return rss

    def client(self, key: str = KEY) -> httpx.AsyncClient:
        """A client; without a key given, that of the account `default`, which may do everything."""
        return a_client(self.url, key, agent=MESSAGES)

    def good_client(self, key: str = KEY) -> httpx.AsyncClient:
        """A client of an address that no attacker has."""
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=PATIENCE_S,
            transport=httpx.AsyncHTTPTransport(local_address=GOOD_ADDRESS),
            trust_env=False,
        )

    async def new_key(self, account: str, scopes: Sequence[str] = TENANT) -> str:
        """A key of an account, which is made if there is none of the name."""
        database = await Database.open(self.database_url)
        try:
            _, key = await Accounts(database).create_key(account, scopes)
        finally:
            await database.aclose()
        return key

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection, for what no HTTP client would send."""
        return await asyncio.open_connection(self.host, self.port)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Watched]:
        """Watch `/healthz`, from another process, and memory while the body runs."""
        watched = Watched()
        probe = await _a_program("tests.security.probe", self.host, str(self.port), str(self.process.pid))
        weighing = asyncio.create_task(self._weigh(watched))
        try:
            await _line_of(probe)
            yield watched
        finally:
            weighing.cancel()
            await asyncio.wait({weighing})
            watched.healthz = [(*each,) for each in await _reported(probe)]

    @asynccontextmanager
    async def used(self, key: str) -> AsyncIterator["Used"]:
        """Let a well-behaved tenant run something every half second while the body runs."""
        used = Used()
        tenant = await _a_program("tests.security.tenant", self.url, key)
        try:
            await _line_of(tenant)
            yield used
        finally:
            used.outcomes = [(*each,) for each in await _reported(tenant)]

    async def _weigh(self, watched: Watched) -> None:
        while True:
            watched.rss_bytes.append(self.rss_bytes)
            await asyncio.sleep(RSS_EVERY_S)


@asynccontextmanager
async def a_target(
    directory: Path, database_url: str, provider_url: str, *, within: Sequence[str] = (), **settings: str
) -> AsyncIterator[Target]:
    """A server over this database; its model is at `provider_url`, `within` a command that runs it."""
    serving = a_server(directory, provider_url, within=within, DATABASE_URL=database_url, **settings)
    async with serving as (process, http):
        yield Target(str(http.base_url), process, database_url, directory)


@asynccontextmanager
async def a_target_here(
    directory: Path, database_url: str, provider_url: str, **settings: str
) -> AsyncIterator[Target]:
    """The same within the process of the tests, where nothing is measured: another process takes seconds."""
    chosen = the_settings(directory, database_url, provider_url, **settings)
    with listen("127.0.0.1", 0) as sock:
        async with served(chosen, sock):
            yield Target(url_of(sock), psutil.Process(), database_url, directory)


@asynccontextmanager
async def an_obedient_model() -> AsyncIterator[str]:
    """The model of `tests.security.model` in a process of its own; yields its URL."""
    model = await _a_program("tests.security.model")
    try:
        yield await _line_of(model)
    finally:
        model.terminate()
        await model.communicate()


async def _a_program(module: str, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments), cwd=ROOT, stdin=PIPE, stdout=PIPE
    )


async def _reported(program: Process) -> list[Any]:
    """End a program and return what it has to tell."""
    async with asyncio.timeout(2 * LONGEST_S):
        output, _ = await program.communicate(b"")
    found: list[Any] = json.loads(output)
    return found


async def _line_of(program: Process) -> str:
    assert program.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        return (await program.stdout.readline()).decode().strip()
