"""Where races are held: server processes over one database and one scripted model, and what was seen."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from app.bootstrap.services import Services
from app.cli.addresses import listen, url_of
from app.cli.serve import served
from app.simulator.script import Answer, ApiRequest, Reply
from app.simulator.server import RecordedMessage, Simulator
from tests.e2e.agents import CLAUDE, named
from tests.e2e.office import Office, office
from tests.e2e.parking import idle_pid_files
from tests.e2e.races.programs import Run, answer, marks, run_of
from tests.e2e.stories import KEY, PROVIDER_KEY, the_settings
from tests.graph_files import graph_files

_HEAD = """---
description: Does whatever it is told.
tools: [office__send_mail, office__long_task, core__get_current_time]
approve: [external_side_effect]
approval_timeout_s: 1.0
permission_modes: [plan, dontAsk, bypassPermissions]
---
Do as you are told.
"""
PATIENCE_S = 180.0
"""Every program has come to its end within this time."""

_PULSE_S = 0.4
"""How often the long task may end."""


@dataclass(frozen=True, slots=True)
class Door:
    """One server process, as far as one can tell from outside."""

    services: Services
    http: httpx.AsyncClient
    directory: Path

    def run_folders(self) -> list[Path]:
        """What runs have left behind, besides the folders of idle processes."""
        idle = {path.parent for path in idle_pid_files(self.services)}
        return [path for path in self.directory.glob("data/runs/server-*/run-*") if path not in idle]


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of the model."""

    run_id: str
    at: float
    answer: Answer
    request: ApiRequest
    marks: list[str]


class Arena:
    """Holds races one after the other."""

    def __init__(self, database_url: str, agent: str) -> None:
        self.database_url = database_url
        self.agent = agent
        self.simulator = Simulator(named(agent, self._answer), accepted_keys=frozenset({PROVIDER_KEY}))
        self.doors: list[Door] = []
        self.asked: list[Asked] = []
        self.overlaps: list[str] = []
        self.unhandled: list[str] = []
        self._numbers = itertools.count(1)
        self._scripts: Mapping[str, Run] = {}
        self._chats: Mapping[str, str | None] = {}

    def begin(self, runs: Mapping[str, Run], chats: Mapping[str, str | None]) -> None:
        """Forget the race before; these are the runs of the next, and their conversations."""
        for seen in (self.asked, self.overlaps, self.unhandled):
            seen.clear()
        self.simulator.sent.clear()
        self.simulator.requests.clear()
        office().sent.clear()
        self._scripts, self._chats = runs, chats

    def next_name(self) -> str:
        """A name no race had."""
        return f"p{next(self._numbers)}"

    def _answer(self, request: ApiRequest) -> Answer:
        run_id = run_of(request)
        turn = sum(asked.run_id == run_id for asked in self.asked)
        model = self._scripts[run_id].model
        given = answer(model[turn] if turn < len(model) else None, run_id, turn)
        self.overlaps += self._still_speaking(run_id)
        self.asked.append(Asked(run_id, time.monotonic(), given, request, marks(request)))
        return given

    def _still_speaking(self, run_id: str) -> Iterator[str]:
        """Other runs of this run's conversation that the model is answering now."""
        sent = {message.message_id: message for message in self.simulator.sent}
        for asked in self.asked:
            chat = self._chats[asked.run_id]
            if asked.run_id != run_id and chat is not None and chat == self._chats[run_id]:
                match asked.answer:
                    case Reply(cut_after=None, error_after=None, message_id=name) if name in sent:
                        if _speaks(sent[name]):
                            yield f"{run_id} is heard while {asked.run_id} is still answered"
                    case _:
                        pass


def _speaks(message: RecordedMessage) -> bool:
    return message.final_usage is None and not message.disconnected


@asynccontextmanager
async def an_arena(
    directory: Path,
    database_url: str,
    *,
    doors: int,
    redis_url: str | None = None,
    idle: int = 0,
    agent: str = CLAUDE,
) -> AsyncIterator[Arena]:
    """Open the doors."""
    arena = Arena(database_url, agent)
    graphs = graph_files(directory, racer=_HEAD)["RUNTALLY_GRAPHS_DIR"]
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(arena.simulator)
        for number in range(doors):
            home = directory / f"door-{number}"
            chosen = the_settings(
                home,
                database_url,
                arena.simulator.url,
                REDIS_URL=redis_url,
                RUNTALLY_TOOLS="tests.e2e.office",
                RUNTALLY_GRAPHS_DIR=graphs,
                RUNTALLY_MAX_CONCURRENT_RUNS=3,
                RUNTALLY_IDLE_PROCESSES=idle,
            )
            sock = stack.enter_context(listen("127.0.0.1", 0))
            services = await stack.enter_async_context(served(chosen, sock))
            http = await stack.enter_async_context(_client(url_of(sock)))
            arena.doors.append(Door(services, http, home))
        pulse = asyncio.create_task(_beat(office()))
        stack.callback(pulse.cancel)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: arena.unhandled.append(str(context)))
        yield arena


def _client(url: str) -> httpx.AsyncClient:
    """A client that is gone from a connection before the server closes it for being idle."""
    limits = httpx.Limits(max_connections=None, keepalive_expiry=1.0)
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.AsyncClient(
        base_url=url, headers=headers, timeout=PATIENCE_S, limits=limits, trust_env=False
    )


async def _beat(here: Office) -> None:
    """Let the long tasks end that are under way."""
    while True:
        await asyncio.sleep(_PULSE_S)
        here.may_end.set()
        here.may_end.clear()


async def rows(arena: Arena, sql: str, *values: Any) -> list[Any]:
    """Ask the database behind the server's back."""
    connection = await asyncpg.connect(arena.database_url)
    try:
        return list(await connection.fetch(sql, *values))
    finally:
        await connection.close()
