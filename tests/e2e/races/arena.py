"""Where races are held: server processes over one database and one scripted model, and what was seen."""

import asyncio
import contextlib
import itertools
import json
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
from tests.e2e.office import AWAY, Office, office
from tests.e2e.parking import idle_pid_files
from tests.e2e.races.programs import Run, answer, marks, run_of
from tests.e2e.stories import KEY, PROVIDER_KEY, the_settings
from tests.e2e.test_one_command_with_several_processes import Command, a_command
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
    """One server in this process, or a command with several of its own."""

    server: Services | Command
    http: httpx.AsyncClient
    directory: Path
    """Of its data."""

    def run_folders(self) -> list[Path]:
        """What runs have left behind, besides the folders of idle processes."""
        idle = {path.parent for each in self.services for path in idle_pid_files(each)}
        return [path for path in self.directory.glob("runs/server-*/run-*") if path not in idle]

    @property
    def services(self) -> list[Services]:
        """Those of a server in this process."""
        return [] if isinstance(self.server, Command) else [self.server]


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

    def __init__(self, database_url: str, agent: str, mails: Path) -> None:
        self.mails = mails
        """Those sent by other processes."""
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
        self._logged = 0

    @property
    def sent(self) -> list[tuple[str, str]]:
        """The mails of all races."""
        away = self.mails.read_text().splitlines() if self.mails.exists() else []
        return [*office().sent, *(tuple(json.loads(mail)) for mail in away)]

    def logged(self) -> list[dict[str, Any]]:
        """What commands have logged since this was asked."""
        lines = [
            line for door in self.doors if isinstance(door.server, Command) for line in door.server.lines()
        ]
        before, self._logged = self._logged, len(lines)
        return lines[before:]

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
    doors: int = 1,
    processes: int = 1,
    redis_url: str | None = None,
    idle: int = 0,
    agent: str = CLAUDE,
) -> AsyncIterator[Arena]:
    """Open the doors; several processes are those of one command, behind one door.

    Each server process keeps `idle` CLI processes.
    """
    arena = Arena(database_url, agent, directory / "mails")
    chosen = {
        "REDIS_URL": redis_url,
        "RUNTALLY_TOOLS": "tests.e2e.office",
        "RUNTALLY_MAX_CONCURRENT_RUNS": 3,
        "RUNTALLY_IDLE_PROCESSES": idle,
        **graph_files(directory, racer=_HEAD),
    }
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(arena.simulator)
        opening = [_a_door(arena, directory / f"door-{number}", chosen) for number in range(doors)]
        if processes > 1:
            opening = [_processes(arena, directory / "processes", processes, chosen)]
        for door in opening:
            arena.doors.append(await stack.enter_async_context(door))
        pulse = asyncio.create_task(_beat(office()))
        stack.callback(pulse.cancel)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: arena.unhandled.append(str(context)))
        yield arena


@asynccontextmanager
async def _a_door(arena: Arena, home: Path, settings: Mapping[str, Any]) -> AsyncIterator[Door]:
    chosen = the_settings(home, arena.database_url, arena.simulator.url, **settings)
    with listen("127.0.0.1", 0) as sock:
        async with served(chosen, sock) as services, _client(url_of(sock)) as http:
            yield Door(services, http, home / "data")


@asynccontextmanager
async def _processes(
    arena: Arena, home: Path, count: int, settings: Mapping[str, Any]
) -> AsyncIterator[Door]:
    home.mkdir()  # noqa: ASYNC240 - before any race
    variables = {name: str(value) for name, value in settings.items() if value is not None}
    variables |= {
        "DATABASE_URL": arena.database_url,
        "ANTHROPIC_API_KEY": PROVIDER_KEY,
        AWAY: str(arena.mails),
    }
    async with (
        a_command(home, arena.simulator, count, agent=arena.agent, **variables) as command,
        _client(str(command.http.base_url)) as http,
    ):
        yield Door(command, http, home)


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
