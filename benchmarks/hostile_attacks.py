"""The attacks of `benchmarks.hostile`: the caller limits their time, each attack its own count."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import httpx
import psutil

from benchmarks.hostile_tools import GRAPH, SEARCH, ToolServer
from tests.media import large_image
from tests.security.server import Target

SUMMARIZER: Final = "claude_agents:summarizer"
BIG: Final = 19_000_000
LONGEST_S: Final = 60.0
MANY: Final = 100_000
"""Runs until the attack's time is over."""
Body: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Arena:
    """A server, its attackers, and the responses they got."""

    target: Target
    tools: ToolServer
    key: str
    good_key: str
    answers: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def client(self, key: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """A client of the attacker without a limit of connections."""
        limits = httpx.Limits(max_connections=None)
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        async with httpx.AsyncClient(
            base_url=self.target.url, headers=headers, timeout=LONGEST_S, limits=limits, trust_env=False
        ) as http:
            yield http

    async def noted(self, pending: Awaitable[httpx.Response]) -> httpx.Response | None:
        """Count a response."""
        try:
            answer = await pending
        except httpx.HTTPError as error:
            self.answers[type(error).__name__] += 1
            return None
        code = answer.json().get("code") if answer.is_error and answer.content else None
        self.answers[f"{answer.status_code}" + (f" {code}" if code else "")] += 1
        return answer

    def responses(self) -> str:
        """The responses, most frequent first."""
        counted = [f"{count} x {answer}" for answer, count in self.answers.most_common(5)]
        return ", ".join([*counted, *self.notes])


Attack: TypeAlias = Callable[[Arena], Awaitable[None]]


def a_run(prompt: str, **fields: Any) -> Body:
    """The body of a run."""
    return {"graphId": SUMMARIZER, "messages": [{"role": "user", "content": prompt}], **fields}


def a_big_run(prompt: str, **fields: Any) -> Body:
    """The body of a run with an image of nearly 20 MB."""
    image = {"type": "image", "mediaType": "image/png", "data": large_image(BIG // 4 * 3)}
    content = [{"type": "text", "text": prompt}, image]
    return {"graphId": SUMMARIZER, "messages": [{"role": "user", "content": content}], **fields}


async def together(works: Iterable[Awaitable[object]]) -> None:
    """Execute all of these concurrently."""
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_coroutine(work))


async def _coroutine(work: Awaitable[object]) -> None:
    await work


async def hammer(
    arena: Arena, path: str, body: Body, *, at_once: int, times: int, key: str | None = None
) -> None:
    """Post the same body repeatedly."""
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}

    async def again(http: httpx.AsyncClient) -> None:
        for _ in range(times):
            await arena.noted(http.post(path, content=content, headers=headers))

    async with arena.client(key) as http:
        await together(again(http) for _ in range(at_once))


async def schema(arena: Arena) -> None:
    """JSON schemas that refer to a server which never responds."""
    unresponsive = await asyncio.start_server(lambda *_: asyncio.sleep(LONGEST_S), "127.0.0.1", 0)
    port = unresponsive.sockets[0].getsockname()[1]
    remote = {"$ref": f"http://127.0.0.1:{port}/schema.json"}
    wanted = {
        "type": "object",
        "definitions": {"a": {"dependencies": {"b": {"$id": "urn:x", "$ref": remote["$ref"]}}}},
        "anyOf": [remote, {"type": "object"}],
    }
    form = {"type": "json_schema", "schema": wanted}
    try:
        await hammer(arena, "/v1/runs", a_run("go", responseFormat=form), at_once=4, times=MANY)
    finally:
        unresponsive.close()


async def pattern(arena: Arena) -> None:
    """Tool calls whose arguments are checked against a backtracking pattern of the tool."""
    call = f"call {SEARCH} " + json.dumps({"q": "a" * 40 + "!"})
    body = {**a_run(call), "graphId": GRAPH}
    await hammer(arena, "/v1/runs/wait", body, at_once=4, times=MANY)


async def brackets(arena: Arena) -> None:
    """20 MB of empty lists, without a key."""
    content = b"[" + b"[]," * (BIG // 3) + b"[]]"
    headers = {"Content-Type": "application/json", "Authorization": "Bearer nobody"}

    async def again(http: httpx.AsyncClient) -> None:
        for _ in range(MANY):
            await arena.noted(http.post("/v1/runs", content=content, headers=headers))

    async with arena.client() as http:
        await together(again(http) for _ in range(4))


async def half_sent(arena: Arena) -> None:
    """More connections than the server may have files, each with half a request."""
    await _held(arena, [b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nX-Half: "] * 1100, trickle=b"")


async def slow_bodies(arena: Arena) -> None:
    """Bodies of 19 MB whose last bytes arrive very slowly, with a key."""
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {arena.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {BIG}\r\n\r\n"
    )
    await _held(arena, [head.encode() + b'{"a":"' + b"x" * (BIG - 1000)] * 40, trickle=b"x")


async def _held(arena: Arena, sent: list[bytes], *, trickle: bytes) -> None:
    """Keep connections open on which this was sent, and reopen closed ones."""

    async def hold(data: bytes) -> None:
        while True:
            try:
                reader, writer = await arena.target.connect()
            except OSError as error:
                arena.answers[type(error).__name__] += 1
                await asyncio.sleep(1)
                continue
            await _dribble(arena, reader, writer, data=data, trickle=trickle)

    await together(hold(data) for data in sent)


async def _dribble(
    arena: Arena, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, data: bytes, trickle: bytes
) -> None:
    answered = asyncio.create_task(reader.readline())
    try:
        writer.write(data)
        with contextlib.suppress(OSError):
            await writer.drain()
        while not answered.done():
            await asyncio.wait({answered}, timeout=1)
            writer.write(trickle)
        line = b"" if answered.exception() else answered.result()
        arena.answers[line.decode("latin-1").strip() or "closed"] += 1
        await asyncio.sleep(1)
    finally:
        answered.cancel()
        writer.close()


async def queued_runs(arena: Arena) -> None:
    """128 runs of 19 MB, queued behind others that hang."""
    async with arena.client() as http:
        for _ in range(12):
            await arena.noted(http.post("/v1/runs", json=a_run("hang")))
    await hammer(arena, "/v1/runs", a_big_run("words 3"), at_once=4, times=MANY)


async def messages(arena: Arena) -> None:
    """Messages of 1 MB to a run that hangs."""
    async with arena.client() as http:
        run_id = (await http.post("/v1/runs", json=a_run("hang"))).json()["runId"]
    text = {"content": "x" * 1_000_000, "priority": "later"}
    await hammer(arena, f"/v1/runs/{run_id}/messages", text, at_once=8, times=MANY)


async def places(arena: Arena) -> None:
    """As many hanging runs of one account as it may have."""
    await hammer(arena, "/v1/runs", a_run("hang"), at_once=4, times=30)
    await asyncio.sleep(LONGEST_S)


async def cancel_storm(arena: Arena) -> None:
    """Runs of 19 MB that are cancelled at once."""
    content = json.dumps(a_big_run("hang")).encode()
    headers = {"Content-Type": "application/json"}

    async def again(http: httpx.AsyncClient) -> None:
        for _ in range(MANY):
            started = await arena.noted(http.post("/v1/runs", content=content, headers=headers))
            if started is not None and started.is_success:
                await arena.noted(http.post(f"/v1/runs/{started.json()['runId']}/cancel"))

    async with arena.client() as http:
        await together(again(http) for _ in range(3))


async def provider_answer(arena: Arena) -> None:
    """Responses of a provider with one word of 200 MB."""
    await hammer(arena, "/v1/runs/wait", a_run("letters 200000000"), at_once=2, times=MANY)


async def tool_pages(arena: Arena) -> None:
    """A tool server whose list of tools never ends."""
    arena.tools.endless = True
    try:
        await hammer(arena, "/v1/runs/wait", {**a_run("go"), "graphId": GRAPH}, at_once=4, times=MANY)
    finally:
        arena.notes.append(f"{arena.tools.pages} pages read")


async def gateway_port(arena: Arena) -> None:
    """1 GB to the server's other ports, without a token."""
    listening = [c for c in arena.target.process.net_connections() if c.status == psutil.CONN_LISTEN]
    ports = {connection.laddr.port for connection in listening} - {arena.target.port}
    head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1100000000\r\n\r\n"

    async def flood(port: int) -> None:
        while True:
            try:
                await flood_once(port)
            except OSError as error:
                arena.answers[type(error).__name__] += 1

    async def flood_once(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answered = asyncio.create_task(reader.readline())
        writer.write(head)
        with contextlib.suppress(OSError):
            for _ in range(1100):
                if answered.done():
                    break
                writer.write(b"x" * 1_000_000)
                await writer.drain()
        arena.answers[(await answered).decode("latin-1").strip() or "closed"] += 1
        writer.close()

    await together(flood(port) for port in ports)


async def readers(arena: Arena) -> None:
    """1,500 readers of one run that hangs."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(arena.client())
        run_id = (await http.post("/v1/runs", json=a_run("hang"))).json()["runId"]
        for _ in range(1500):
            request = http.build_request("GET", f"/v1/runs/{run_id}/events")
            if (answer := await arena.noted(_opened(http, request))) is not None:
                stack.push_async_callback(answer.aclose)
        await asyncio.sleep(LONGEST_S)


async def _opened(http: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    answer = await http.send(request, stream=True)
    if answer.is_error:
        await answer.aread()
    return answer


async def conversation(arena: Arena) -> None:
    """A conversation of more than 100 MB, read repeatedly."""
    async with arena.client() as http:
        for _ in range(6):
            await arena.noted(http.post("/v1/runs/wait", json=a_big_run("words 3", stateKey="long")))

        async def again() -> None:
            for _ in range(MANY):
                await arena.noted(http.get("/v1/sessions/long"))

        await together(again() for _ in range(4))


async def prepaid(arena: Arena) -> None:
    """12 concurrent runs with large prompts on 5 dollars of credit."""
    async with arena.target.client() as operator:
        await operator.patch("/v1/accounts/attacker", json={"mode": "prepaid"})
        await operator.post("/v1/accounts/attacker/grants", json={"usd": "5"})
        try:
            await hammer(arena, "/v1/runs/wait", a_big_run("words 3"), at_once=12, times=MANY)
        finally:
            balance = (await operator.get("/v1/accounts/attacker")).json()
            arena.notes.append(f"left: {balance['leftUsd']} USD")


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        *(schema, pattern, brackets, half_sent, slow_bodies, queued_runs, messages, places, cancel_storm),
        *(provider_answer, tool_pages, gateway_port, readers, conversation, prepaid),
    )
}
