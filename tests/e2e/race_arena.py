"""Where races are held: server processes over one database and one scripted model, and what was seen."""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from app.bootstrap import Services
from app.cli.serve import listen, served, url_of
from app.simulator.script import Answer, ApiRequest, Reply
from app.simulator.server import SentMessage, Simulator
from tests.e2e.office import Office, office
from tests.e2e.race_programs import Act, Program, Run, answer, marks, prompt, run_of
from tests.e2e.stories import PROVIDER_KEY, a_client, events_only, the_settings

GRAPH = "claude_agents:racer"
CALL_S = 20.0
"""Every request is answered within this time, also on a busy machine."""
RUN_S = 60.0
"""Every program has come to rest within this time."""

_HEAD = """---
description: Does whatever it is told.
tools: [office__send_mail, office__long_task, core__get_current_time]
approve: [external_side_effect]
approval_timeout_s: 1.0
permission_modes: [plan, dontAsk, bypassPermissions]
---
Do as you are told.
"""
_PULSE_S = 0.4
"""How often the long task may end."""


@dataclass(frozen=True, slots=True)
class Door:
    """One server process, as far as one can tell from outside."""

    services: Services
    http: httpx.AsyncClient
    directory: Path

    def run_folders(self) -> list[Path]:
        """What runs have left behind."""
        return list(self.directory.glob("data/runs/server-*/run-*"))


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of the model."""

    run_id: str
    at: float
    answer: Answer
    request: ApiRequest
    marks: list[str]


@dataclass(slots=True)
class Answered:
    """What came of a request."""

    act: Act | Run
    run_id: str
    status: int
    body: Any = None

    @property
    def code(self) -> str | None:
        """The error's code."""
        return self.body.get("code") if isinstance(self.body, dict) else None


@dataclass(slots=True)
class Reading:
    """What a reader of a run got; `whole` when the server said that this was all."""

    run_id: str
    after: int
    raw: bytes = b""
    whole: bool = False
    ended: bool = False
    grown: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def bytes(self) -> bytes:
        """The events, without heartbeats."""
        return events_only(self.raw)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events' data."""
        lines = self.bytes.decode().split("\n")
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]

    def hear(self, data: bytes, *, ended: bool = False) -> None:
        """More has come, or nothing more will."""
        self.raw += data
        self.ended |= ended
        self.grown.set()

    async def has(self, count: int) -> None:
        """Wait until so many events were heard, or all."""
        while len(self.events) < count and not self.ended:
            self.grown.clear()
            await self.grown.wait()


class Arena:
    """Holds races one after the other."""

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        self.simulator = Simulator(self._answer, accepted_keys=frozenset({PROVIDER_KEY}))
        self.doors: list[Door] = []
        self.asked: list[Asked] = []
        self.overlaps: list[str] = []
        self.unhandled: list[str] = []
        self._numbers = itertools.count(1)
        self._scripts: dict[str, Run] = {}
        self._chats: dict[str, str | None] = {}

    def begin(self, program: Program) -> "Race":
        """A race nobody has run yet."""
        race = Race(self, program, f"p{next(self._numbers)}")
        self.asked.clear()
        self.overlaps.clear()
        self.unhandled.clear()
        self.simulator.sent.clear()
        self.simulator.requests.clear()
        office().sent.clear()
        self._scripts = dict(race.runs)
        self._chats = {run_id: race.chat_of(run) for run_id, run in race.runs.items()}
        return race

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


def _speaks(message: SentMessage) -> bool:
    return message.final_usage is None and not message.hung_up


class Race:
    """One program while it runs, and what came of it."""

    def __init__(self, arena: Arena, program: Program, name: str) -> None:
        self.arena = arena
        self.program = program
        self.name = name
        self.runs = {f"{name}-{number}": run for number, run in enumerate(program.runs)}
        self.answers: list[Answered] = []
        self.readings: list[Reading] = []
        self.hung: list[str] = []
        self.sent: dict[tuple[str, str], Act] = {}
        """Messages a run was sent, by run and message id, with what was answered."""
        self._steady = {run_id: Reading(run_id, 0) for run_id in self.runs}

    def chat_of(self, run: Run) -> str | None:
        """The state key of a run."""
        return None if run.chat is None else f"{self.name}-chat-{run.chat}"

    def body_of(self, run_id: str) -> dict[str, Any]:
        """What is posted for a run."""
        run = self.runs[run_id]
        body: dict[str, Any] = {
            "runId": run_id,
            "graphId": GRAPH,
            "messages": [{"role": "user", "content": prompt(run_id, "go")}],
            "limits": {"timeoutS": CALL_S},
        }
        if (chat := self.chat_of(run)) is not None:
            body |= {"stateKey": chat, "onConflict": run.on_conflict}
        return body

    async def hold(self) -> None:
        """Let everything happen, and everything come to its end."""
        starts = [self._start(run_id, run) for run_id, run in self.runs.items()]
        acts = [self._act(list(self.runs)[act.run % len(self.runs)], act) for act in self.program.acts]
        await asyncio.gather(*(self._within(each) for each in [*starts, *acts]))

    async def _within(self, work: Any) -> None:
        try:
            async with asyncio.timeout(RUN_S):
                await work
        except TimeoutError:
            self.hung.append(f"{work} hangs")

    async def _start(self, run_id: str, run: Run) -> None:
        await asyncio.sleep(run.at_ms / 1000)
        steady = self._steady[run_id]
        try:
            if run.way == "stream":
                await self._post(run, run_id, run.way, run.door, reading=steady)
            else:
                posting = asyncio.create_task(self._post(run, run_id, run.way, run.door))
                # Whoever waits for the end is not answered before: then there is something to read.
                await asyncio.wait({posting}, timeout=0.3 if run.way == "wait" else None)
                await self._read(run_id, run.door, reading=steady, act=run)
                await posting
        finally:
            steady.hear(b"", ended=True)

    async def _act(self, run_id: str, act: Act) -> None:
        await asyncio.sleep(self.runs[run_id].at_ms / 1000)
        if act.events:
            await self._steady[run_id].has(act.events)
        await asyncio.sleep(act.ms / 1000)
        path = f"/v1/runs/{run_id}"
        match act.what:
            case "cancel" | "interrupt":
                await self._call(act, run_id, "POST", f"{path}/{act.what}")
            case "send":
                body = {"content": prompt(run_id, "and this"), "priority": act.how}
                await self._call(act, run_id, "POST", f"{path}/messages", json=body)
            case "mode":
                await self._call(act, run_id, "PATCH", path, json={"permissionMode": act.how})
            case "decide":
                await self._decide(act, run_id)
            case "again":
                await self._post(act, run_id, act.how, act.door)
            case "leave":
                await self._read(run_id, act.door, leave_after=int(act.how), act=act)
            case "join":
                await self._read(run_id, act.door, after=int(act.how), act=act)
            case _:
                chat = self.chat_of(self.runs[run_id]) or f"{self.name}-none"
                await self._call(act, run_id, "DELETE", f"/v1/sessions/{chat}")

    async def _decide(self, act: Act, run_id: str) -> None:
        """Decide about what was asked last."""
        requests = [
            event for event in self._steady[run_id].events if event["type"] == "permission_request"
        ]
        last = requests[-1] if requests else {"requestId": "none", "args": {}}
        body: dict[str, Any] = {"decision": "deny" if act.how == "deny" else "allow"}
        if act.how == "change":
            body["args"] = {**last["args"], "to": "alice@example.org"}
        if act.how == "nonsense":
            body["args"] = {"to": "nobody"}
        await self._call(act, run_id, "POST", f"/v1/runs/{run_id}/permissions/{last['requestId']}", json=body)

    async def _call(self, act: Act | Run, run_id: str, method: str, path: str, **options: Any) -> None:
        try:
            async with asyncio.timeout(CALL_S):
                response = await self._http(act.door).request(method, path, **options)
        except TimeoutError:
            self.hung.append(f"{method} {path} ({act}) is not answered")
            return
        body = response.json() if response.content else None
        self.answers.append(Answered(act, run_id, response.status_code, body))

    async def _post(
        self, act: Act | Run, run_id: str, way: str, door: int, *, reading: Reading | None = None
    ) -> None:
        body = self.body_of(run_id)
        if way == "otherwise":
            body["limits"] = {"timeoutS": CALL_S - 1}
        match way:
            case "stream":
                await self._read(run_id, door, act=act, post=body, reading=reading)
            case "wait":
                await self._call(act, run_id, "POST", "/v1/runs/wait", json=body)
            case _:
                await self._call(act, run_id, "POST", "/v1/runs", json=body)

    async def _read(
        self,
        run_id: str,
        door: int,
        *,
        act: Act | Run,
        after: int = 0,
        leave_after: int | None = None,
        post: dict[str, Any] | None = None,
        reading: Reading | None = None,
    ) -> None:
        reading = reading or Reading(run_id, after)
        self.readings.append(reading)
        method, path = ("GET", f"/v1/runs/{run_id}/events") if post is None else ("POST", "/v1/runs/stream")
        headers = {"Last-Event-ID": str(after)} if after else {}
        async with self._http(door).stream(method, path, json=post, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                body = json.loads(await response.aread())
                self.answers.append(Answered(act, run_id, response.status_code, body))
                return
            self.answers.append(Answered(act, run_id, response.status_code))
            async for chunk in response.aiter_bytes():
                reading.hear(chunk)
                if leave_after is not None and len(reading.events) >= leave_after:
                    return
        reading.whole = True

    def _http(self, door: int) -> httpx.AsyncClient:
        return self.arena.doors[door % len(self.arena.doors)].http


@asynccontextmanager
async def an_arena(
    directory: Path, database_url: str, *, doors: int, redis_url: str | None = None
) -> AsyncIterator[Arena]:
    """Open the doors."""
    arena = Arena(database_url)
    graphs = directory / "graphs"
    graphs.mkdir(exist_ok=True)
    (graphs / "racer.md").write_text(_HEAD)
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
            )
            sock = stack.enter_context(listen("127.0.0.1", 0))
            services = await stack.enter_async_context(served(chosen, sock))
            http = await stack.enter_async_context(a_client(url_of(sock)))
            http.timeout = httpx.Timeout(None)
            arena.doors.append(Door(services, http, home))
        pulse = asyncio.create_task(_beat(office()))
        stack.callback(pulse.cancel)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: arena.unhandled.append(str(context)))
        yield arena


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
