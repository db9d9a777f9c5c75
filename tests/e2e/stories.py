"""What every end-to-end story needs: a served app, a client for it and the model it talks to."""

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
import httpx_sse
import psutil

from app.bootstrap.services import Services
from app.cli.addresses import listen, url_of
from app.cli.serve import served
from app.executors.claude_agent.process.cli import Cli
from app.executors.port import GraphExecutor
from app.ids import AccountId, RunId, RunKey
from app.platform.settings import Settings
from app.simulator.script import Responder
from app.simulator.server import Simulator
from tests.e2e.agents import CLAUDE, AgentClient, named
from tests.patience import PATIENCE_S, until_shown


class OpenWorld(Protocol):
    """The fixture `open_world`."""

    def __call__(self, responder: Responder, **settings: Any) -> AbstractAsyncContextManager["World"]:
        """`async with open_world(responder) as world:` serves over the test's database."""
        ...


class WorldOf(Protocol):
    """The fixture `world_of`."""

    async def __call__(self, responder: Responder, **settings: Any) -> "World":
        """Open a world that lasts as long as the test."""
        ...


KEY = "rt_" + "e2e0" * 8
PROVIDER_KEY = "sk-provider-key-nobody-may-see"
ASSISTANT = "claude_agents:assistant"
ANALYST = "claude_agents:analyst"
CLOCK = "mcp__runtally__core__get_current_time"
CALCULATOR = "mcp__runtally__core__calculate"
_TRUSTED = ssl.create_default_context()
"""Made once: each client would read all of the machine's certificates."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One event as a client hears it."""

    id: int
    type: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """A running Runtally and the scripted provider behind it."""

    services: Services
    simulator: Simulator
    http: httpx.AsyncClient
    url: str

    async def account_id(self) -> AccountId:
        """The account of the client's key."""
        return (await self.services.accounts.authenticate(KEY)).account_id

    async def run(self, body: dict[str, Any]) -> list[Heard]:
        """Post a run and hear it to its end."""
        return [event async for event in self.stream(body)]

    async def stream(self, body: dict[str, Any]) -> AsyncIterator[Heard]:
        """Post a run and yield its events."""
        async for event in self._heard("POST", "/v1/runs/stream", json=body):
            yield event

    async def follow(self, run_id: str) -> AsyncIterator[Heard]:
        """Yield a run's events from the first."""
        async for event in self._heard("GET", f"/v1/runs/{run_id}/events"):
            yield event

    async def events(self, run_id: str, *, until: str = "done") -> list[Heard]:
        """A run's events up to the first of this type."""
        events: list[Heard] = []
        async with asyncio.timeout(PATIENCE_S):
            async for event in self.follow(run_id):
                events.append(event)
                if event.type == until:
                    return events
        raise AssertionError(events)

    async def first(self, run_id: str, kind: str, *, after: dict[str, Any] | None = None) -> dict[str, Any]:
        """A run's first event of this type; `after`: with another request than that event."""
        async with asyncio.timeout(PATIENCE_S):
            async for event in self.follow(run_id):
                if event.type == kind and (after is None or event.data["requestId"] != after["requestId"]):
                    return event.data
        raise AssertionError

    async def parked(self, run_id: str) -> None:
        """Wait until a run waits in no process."""
        await until_shown(self.http, f"/v1/runs/{run_id}", lambda run: run["status"] == "waiting")

    async def decide(self, run_id: str, request: dict[str, Any], **decision: Any) -> httpx.Response:
        """Answer a request for a person's decision."""
        return await self.http.post(f"/v1/runs/{run_id}/permissions/{request['requestId']}", json=decision)

    async def _heard(self, method: str, path: str, **options: Any) -> AsyncIterator[Heard]:
        async with httpx_sse.aconnect_sse(self.http, method, path, **options) as source:
            assert source.response.status_code == 200, await source.response.aread()
            async for event in source.aiter_sse():
                # Heartbeats and `retry:` carry no data.
                if event.data:
                    yield Heard(int(event.id), event.event, json.loads(event.data))

    async def start(self, body: dict[str, Any]) -> str:
        """Post a run into the background and return its id."""
        response = await self.http.post("/v1/runs", json=body)
        assert response.status_code == 202, response.text
        run_id: str = response.json()["runId"]
        return run_id

    async def accepted(self, runs: int) -> None:
        """Wait until so many runs of the client's account have been accepted."""
        await until_shown(self.http, "/v1/runs", lambda found: len(found["items"]) >= runs)

    async def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for a run's end and return the run."""
        path = f"/v1/runs/{run_id}"
        run: dict[str, Any] = await until_shown(self.http, path, lambda run: run["final"] is not None)
        return run

    async def receipts(self, run_id: str) -> list[dict[str, Any]]:
        """A run's receipts, oldest first."""
        response = await self.http.get(f"/v1/runs/{run_id}/receipts")
        items: list[dict[str, Any]] = response.raise_for_status().json()["items"]
        return items

    async def raw(self, run_id: str, **options: Any) -> bytes:
        """The bytes of a run's event stream, without heartbeats and `retry:`."""
        response = await self.http.get(f"/v1/runs/{run_id}/events", **options)
        return events_only(response.raise_for_status().content)


@asynccontextmanager
async def a_world(
    directory: Path,
    database_url: str,
    responder: Responder,
    *,
    cli: Callable[[Simulator], Cli] | None = None,
    executors: Mapping[str, GraphExecutor] | None = None,
    agent: str = CLAUDE,
    **settings: object,
) -> AsyncIterator[World]:
    """Serve on a free port over this database, with this model.

    `cli` may make another than the bundled one; `executors` replace the Claude Agent SDK; `agents.py` has
    `agent`. A setting may be made of the server's own URL.
    """
    async with Simulator(named(agent, responder), accepted_keys=frozenset({PROVIDER_KEY})) as simulator:
        with listen("127.0.0.1", 0) as sock:
            own = {name: each(url_of(sock)) if callable(each) else each for name, each in settings.items()}
            chosen = the_settings(directory, database_url, simulator.url, **own)
            chosen_cli = None if cli is None else cli(simulator)
            serving = served(chosen, sock, cli=chosen_cli, executors=executors)
            async with serving as services, a_client(url_of(sock), agent=agent) as http:
                yield World(services, simulator, http, url_of(sock))


def the_settings(
    directory: Path,
    database_url: str,
    provider_url: str,
    **settings: object,
) -> Settings:
    """Settings that take nothing from this machine."""
    values: dict[str, object] = {
        "DATABASE_URL": database_url,
        "REDIS_URL": None,
        "RUNTALLY_DATA_DIR": directory / "data",
        "ANTHROPIC_API_KEY": PROVIDER_KEY,
        "ANTHROPIC_BASE_URL": provider_url,
        "RUNTALLY_BOOTSTRAP_KEY": KEY,
        # Each costs a third of a second of CPU; stories about them ask for some.
        "RUNTALLY_IDLE_PROCESSES": 0,
        # Each connection costs some 10 ms of CPU, and prepares statements of its own.
        "DATABASE_POOL_SIZE": 2,
        # On a busy machine a call may wait for minutes before a test answers it.
        "RUNTALLY_PARK_AFTER_S": 3_600,
        # A story sends its requests as fast as the machine can.
        "RUNTALLY_MAX_WRITES_PER_SECOND": 10_000,
        **settings,
    }
    return Settings.load(_env_file=None, **values)


def a_client(url: str, key: str = KEY, *, agent: str = CLAUDE) -> httpx.AsyncClient:
    """An HTTP client with an API key."""
    headers = {"Authorization": f"Bearer {key}"}
    return AgentClient(
        agent, base_url=url, headers=headers, timeout=PATIENCE_S, verify=_TRUSTED, trust_env=False
    )


def a_request(prompt: str = "hello", **fields: Any) -> dict[str, Any]:
    """The body of a run."""
    messages = [{"role": "user", "content": prompt}]
    return {"graphId": ASSISTANT, "messages": messages, **fields}


def events_only(stream: bytes) -> bytes:
    """The events of a stream, without comments and `retry:`."""
    lines = stream.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith((b":", b"retry: ")))


def positions(stream: bytes) -> list[int]:
    """The ids of a stream's events."""
    return [int(position) for position in re.findall(rb"^id: (.+)$", stream, re.MULTILINE)]


def said(events: list[Heard]) -> str:
    """The text a reader saw."""
    return "".join(event.data["delta"] for event in events if event.type == "text_delta")


async def first_text(world: World, run_id: str, *, deltas: int) -> str:
    """The first so many deltas of a run's text, once a reader has them: the CLI has them too then."""
    text = ""
    async for event in world.follow(run_id):
        if event.type == "text_delta":
            text += event.data["delta"]
            deltas -= 1
        if deltas == 0:
            break
    return text


def cli_processes() -> list[psutil.Process]:
    """The CLI processes this process has started."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if _is_cli(child)]


def _is_cli(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        if "claude" in process.name() or "_bundled/claude" in arguments_of(process):
            # What a CLI starts has the CLI's name until it is something else.
            parent = process.parent()
            return parent is None or parent.name() != "claude"
    return False


def is_running(process: psutil.Process) -> bool:
    """Whether a process has not ended, whether or not its parent knows."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def arguments_of(process: psutil.Process) -> str:
    """A process's arguments; nothing once it is gone."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def shown_by(processes: Iterable[psutil.Process]) -> str:
    """The environments and arguments of processes and of everything they have started."""
    shown: list[str] = []
    for process in processes:
        # A CLI starts programs of its own, which are soon gone.
        with suppress(psutil.NoSuchProcess):
            shown += [f"{process.environ()} {arguments_of(process)}", shown_by(process.children())]
    return "\n".join(shown)


def contents_below(directory: Path) -> list[bytes]:
    """What the files in a folder and those below it hold, while somebody may still be removing them."""
    contents: list[bytes] = []
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                contents.append(Path(folder, name).read_bytes())
    return contents


async def until_sent(world: World, run_id: str, *, messages: int = 1, key: str = KEY) -> None:
    """Wait until so many messages to a run that this world carries are on their way to its agent."""
    account_id = (await world.services.accounts.authenticate(key)).account_id
    live = world.services.runs.supervisor.find(RunKey(account_id, RunId(run_id)))
    assert live is not None
    await until(lambda: len(live.control.inbox._positions) >= messages)


async def until(true: Callable[[], bool]) -> None:
    """Wait for something to become true; fail when it does not."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.01)
