"""One race: what clients ask and when, and what they are answered."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.e2e.races.arena import PATIENCE_S, Arena
from tests.e2e.races.programs import Act, Program, Run, prompt
from tests.e2e.stories import events_only

CALL_S = 60.0
"""Every request is answered, and every run has ended, within this time, also on a very busy machine."""


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
    def told(self) -> bytes:
        """The events, without heartbeats."""
        return events_only(self.raw)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events' data."""
        lines = self.told.decode().split("\n")
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


class Race:
    """One program while it runs, and what came of it."""

    def __init__(self, arena: Arena, program: Program) -> None:
        self.arena = arena
        self.program = program
        self.name = name = arena.next_name()
        self.runs = {f"{name}-{number}": run for number, run in enumerate(program.runs)}
        self.answers: list[Answered] = []
        self.readings: list[Reading] = []
        self.hung: list[str] = []
        self._steady = {run_id: Reading(run_id, 0) for run_id in self.runs}

    def chat_of(self, run: Run) -> str | None:
        """The state key of a run."""
        return None if run.chat is None else f"{self.name}-chat-{run.chat}"

    def body_of(self, run_id: str) -> dict[str, Any]:
        """What is posted for a run."""
        run = self.runs[run_id]
        body: dict[str, Any] = {
            "runId": run_id,
            "graphId": f"{self.arena.agent}:racer",
            "messages": [{"role": "user", "content": prompt(run_id, "go")}],
            "limits": {"timeoutS": CALL_S},
        }
        if (chat := self.chat_of(run)) is not None:
            body |= {"stateKey": chat, "onConflict": run.on_conflict}
        return body

    async def hold(self) -> None:
        """Let everything happen, until everything asked for is answered."""
        self.arena.begin(self.runs, {run_id: self.chat_of(run) for run_id, run in self.runs.items()})
        starts = [self._start(run_id, run) for run_id, run in self.runs.items()]
        acts = [self._act(list(self.runs)[act.run % len(self.runs)], act) for act in self.program.acts]
        await asyncio.gather(*(self._within(each) for each in [*starts, *acts]))

    async def _within(self, work: Any) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await work
        except TimeoutError:
            self.hung.append(f"{work} hangs")
        except httpx.HTTPError as error:
            # A stream breaks off when what it is read from is deleted.
            if not (isinstance(error, httpx.RemoteProtocolError) and self.forgotten()):
                self.hung.append(f"{work} was not answered: {error!r}")

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
        await self._do(act, run_id, f"/v1/runs/{run_id}")

    async def _do(self, act: Act, run_id: str, path: str) -> None:
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
        requests = [event for event in self._steady[run_id].events if event["type"] == "permission_request"]
        last: dict[str, Any] = requests[-1] if requests else {"requestId": "none", "args": {}}
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
                content = await response.aread()
                body = json.loads(content) if content else None
                self.answers.append(Answered(act, run_id, response.status_code, body))
                return
            self.answers.append(Answered(act, run_id, response.status_code))
            async for chunk in response.aiter_bytes():
                reading.hear(chunk)
                if leave_after is not None and len(reading.events) >= leave_after:
                    return
        reading.whole = True

    def forgotten(self) -> set[str | None]:
        """The conversations that were deleted."""
        return {
            self.chat_of(self.runs[each.run_id])
            for each in self.answers
            if isinstance(each.act, Act) and each.act.what == "forget" and each.status == 204
        }

    def _http(self, door: int) -> httpx.AsyncClient:
        return self.arena.doors[door % len(self.arena.doors)].http
