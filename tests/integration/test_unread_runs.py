"""Runs that are cancelled when their readers have left, and those that are not."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest

from app.ids import RunId, RunKey
from app.platform.background import forever
from app.platform.db import StatementFailed
from app.runs.readers.repository import readers_of, record_readers
from app.runs.readers.service import RunReaders
from app.simulator.script import in_turn
from tests.e2e.stories import World, WorldOf, a_request
from tests.factories import a_wait, reached_by, scripted
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

GRACE_S = 3.0
SHORT_S = 0.3
GRAPH = "claude_agents:assistant"
CANCEL = {"onDisconnect": "cancel"}


def a_chat(**fields: Any) -> dict[str, Any]:
    message = {"id": "u-1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    return {"id": "chat-1", "messages": [message], **fields}


def an_ag_ui_run(run_id: str, **options: Any) -> dict[str, Any]:
    message = {"id": "u-1", "role": "user", "content": "hi"}
    props = {"runtally": options}
    return {"threadId": f"t-{run_id}", "runId": run_id, "messages": [message], "forwardedProps": props}


async def read_and_leave(world: World, body: dict[str, Any], path: str = "/v1/runs/stream") -> str:
    """Returns the run's id."""
    before = {run["runId"] for run in (await world.http.get("/v1/runs")).json()["items"]}
    async with world.http.stream("POST", path, json=body) as posted:
        assert posted.status_code == 200, await posted.aread()
        received = b""
        async for chunk in posted.aiter_bytes():
            received += chunk
            if b"two" in received:
                break
    (run_id,) = {run["runId"] for run in (await world.http.get("/v1/runs")).json()["items"]} - before
    return str(run_id)


async def follow(world: World, run_id: str, stack: AsyncExitStack) -> None:
    response = await stack.enter_async_context(world.http.stream("GET", f"/v1/runs/{run_id}/events"))
    chunks = response.aiter_bytes()
    # The response is closed when this is collected.
    stack.callback(lambda: chunks)
    await anext(chunks)


async def read_elsewhere(world: World, run_id: str, *, times: int) -> None:
    """What another server process does for a reader, until it is killed."""
    process_id, run = uuid4(), RunKey(await world.account_id(), RunId(run_id))
    for _ in range(times):
        async with world.services.database.write() as tx:
            await record_readers(tx, process_id, [run])
        await asyncio.sleep(GRACE_S / 30)


def shorten_grace(world: World) -> None:
    """From now on: as long as readers were to come and go, the machine may have been slow."""
    world.services.readers._unchanged_s = GRACE_S


async def read_until_paused(world: World, run_id: str) -> None:
    """A response that is complete although its run is not, as one that waits for an approval."""

    async def response() -> AsyncGenerator[bytes, None]:
        yield b"paused"

    readers: RunReaders = world.services.readers
    run = RunKey(await world.account_id(), RunId(run_id))
    assert [chunk async for chunk in readers.counted(response(), run=run, stops_unread=True)] == [b"paused"]


async def test_only_runs_whose_readers_have_left_for_good_are_cancelled(world_of: WorldOf) -> None:
    wait = a_wait()
    executors = scripted(WriteMessage("one two three", before_end=wait))
    settings = {"RUNTALLY_DISCONNECT_GRACE_S": "3600", "RUNTALLY_ON_DISCONNECT": "cancel"}
    settings["RUNTALLY_MAX_CONCURRENT_RUNS"] = "20"
    world = await world_of(in_turn(), executors=executors, **settings)
    chats, ag_ui = f"/v1/ai-sdk/{GRAPH}/chat", f"/v1/ag-ui/{GRAPH}"
    async with AsyncExitStack() as stack:
        await world.start(a_request(runId="never-read", **CANCEL))
        await reached_by(wait)
        for run in ("read-elsewhere", "server-killed"):
            await world.start(a_request(runId=run, **CANCEL))
        elsewhere = asyncio.create_task(read_elsewhere(world, "read-elsewhere", times=10_000))
        stack.callback(elsewhere.cancel)
        returned = await read_and_leave(world, a_request(**CANCEL))
        await follow(world, returned, stack)
        kept = [
            *("never-read", "read-elsewhere", returned),
            await read_and_leave(world, a_request()),
            await read_and_leave(world, a_chat(id="chat-2", onDisconnect="continue"), chats),
            await read_and_leave(world, an_ag_ui_run("run-2", onDisconnect="continue"), ag_ui),
        ]
        paused = await read_and_leave(world, a_request(**CANCEL))
        await read_until_paused(world, paused)
        kept.append(paused)
        left = [
            "server-killed",
            await read_and_leave(world, a_chat(), chats),
            await read_and_leave(world, an_ag_ui_run("run-1"), ag_ui),
            await read_and_leave(world, a_request(**CANCEL)),
        ]
        await read_elsewhere(world, "server-killed", times=1)
        shorten_grace(world)

        ended = [await world.ended(run) for run in left]

        assert [(run["status"], run["final"]["finishReason"]) for run in ended] == [
            ("cancelled", "aborted")
        ] * 4
        states = [(await world.http.get(f"/v1/runs/{run}")).json()["status"] for run in kept]
        assert states == ["running"] * len(kept), dict(zip(kept, states, strict=True))
        assert [len(await world.receipts(run)) for run in left] == [1] * 4
        wait.until.set()
        assert {(await world.ended(run))["status"] for run in kept} == {"succeeded"}


async def test_a_run_that_was_stopped_ends_at_once_if_its_person_goes_on(world_of: WorldOf) -> None:
    wait = a_wait()
    executors = scripted(WriteMessage("one two three", before_end=wait))
    world = await world_of(in_turn(), executors=executors, RUNTALLY_DISCONNECT_GRACE_S="3600")
    chats, next_message = f"/v1/ai-sdk/{GRAPH}/chat", {"id": "u-2", "role": "user"}
    parts = [{"type": "text", "text": "go on"}]

    async def go_on(chat_id: str) -> str:
        """Post the next message of a chat; returns the id of its run, which is read to its end."""
        shown = a_chat(id=chat_id)["messages"]
        body = {"id": chat_id, "messages": [*shown, {**next_message, "parts": parts}], **CANCEL}
        return str(json.loads((await world.http.post(chats, json=body)).text.split("\n")[0][6:])["messageId"])

    async with AsyncExitStack() as stack:
        stopped = await read_and_leave(world, a_chat(id="stopped", **CANCEL), chats)
        shared = await read_and_leave(world, a_chat(id="shared", **CANCEL), chats)
        await follow(world, shared, stack)
        kept = await read_and_leave(world, a_chat(id="kept", onDisconnect="continue"), chats)
        far, read = [await world.start(a_request(stateKey=key, **CANCEL)) for key in ("far", "read")]
        for run in (far, read):
            await leave_elsewhere(Server(world, []), await key_of(world, run))
        await read_elsewhere(world, read, times=1)
        going_on = [asyncio.create_task(go_on(chat)) for chat in ("stopped", "shared", "kept")]
        for key in ("far", "read"):
            await world.start(a_request(stateKey=key, **CANCEL))

        ended = [await world.ended(run) for run in (stopped, far)]

        assert {run["status"] for run in ended} == {"cancelled"}
        states = [(await world.http.get(f"/v1/runs/{run}")).json()["status"] for run in (shared, kept, read)]
        assert states == ["running"] * 3
        wait.until.set()
        assert {
            (await world.ended(run))["status"] for run in (shared, kept, *[await each for each in going_on])
        } == {"succeeded"}


async def test_a_reader_that_leaves_before_it_receives_anything_has_been_one(world_of: WorldOf) -> None:
    wait = a_wait()
    executors = scripted(WriteMessage("one two three", before_end=wait))
    world = await world_of(in_turn(), executors=executors, RUNTALLY_DISCONNECT_GRACE_S="3600")
    run = await key_of(world, await world.start(a_request(**CANCEL)))
    readers: RunReaders = world.services.readers

    with anyio.CancelScope() as leaving:
        leaving.cancel()
        async with readers.reading(run, stops_unread=True):
            await anyio.sleep_forever()

    async with world.services.database.snapshot() as reader:
        assert len((await readers_of(reader, [run]))[run].seen) == 1
    wait.until.set()


async def key_of(world: World, run_id: str) -> RunKey:
    return RunKey(await world.account_id(), RunId(run_id))


@asynccontextmanager
async def unreadable_readers(admin: asyncpg.Connection) -> AsyncGenerator[None, None]:
    await admin.execute("ALTER TABLE run_readers RENAME TO unreadable")
    try:
        yield
    finally:
        await admin.execute("ALTER TABLE unreadable RENAME TO run_readers")


@dataclass
class Server:
    """The readers of one server process, which does what is to be done when the test says so."""

    world: World
    executed: list[RunKey]
    cancelled: list[RunKey] = field(default_factory=list)
    readers: RunReaders = field(init=False)

    def __post_init__(self) -> None:
        async def cancel(run: RunKey) -> None:
            # The process that executes the run does not answer.
            self.cancelled.append(run)
            await asyncio.Event().wait()

        self.readers = RunReaders(
            self.world.services.database,
            process_id=uuid4(),
            executed=lambda: self.executed,
            cancel=cancel,
            grace_s=SHORT_S,
        )


async def leave_elsewhere(server: Server, run: RunKey) -> None:
    with suppress(ConnectionError):
        async with server.readers.reading(run, stops_unread=True):
            raise ConnectionError
    await server.readers.store_left()


async def checked_for(seconds: float, *servers: Server) -> None:
    over_at = asyncio.get_running_loop().time() + seconds
    jobs = [asyncio.create_task(forever(server.readers.stop_unread, 0, name="")) for server in servers]
    while asyncio.get_running_loop().time() < over_at:
        for server in servers:
            async with asyncio.timeout(PATIENCE_S):
                await server.readers.check()
        await asyncio.sleep(SHORT_S / 10)
    for job in jobs:
        job.cancel()


async def checked_until_cancelled(run: RunKey, server: Server) -> None:
    while run not in server.cancelled:
        await checked_for(SHORT_S, server)


async def test_a_run_is_cancelled_by_the_server_that_executes_it(
    world_of: WorldOf, admin: asyncpg.Connection
) -> None:
    wait = a_wait()
    executors = scripted(WriteMessage("one two three", before_end=wait))
    world = await world_of(in_turn(), executors=executors, RUNTALLY_DISCONNECT_GRACE_S="3600")
    await world.start(a_request(runId="run-1", **CANCEL))
    run = RunKey(await world.account_id(), RunId("run-1"))
    front, worker = Server(world, []), Server(world, [run])

    with suppress(ConnectionError):
        async with front.readers.reading(run, stops_unread=True):
            await checked_for(3 * SHORT_S, front, worker)
            assert worker.cancelled == []
            raise ConnectionError
    await worker.readers.check()
    async with unreadable_readers(admin):
        with pytest.raises(StatementFailed):
            await worker.readers.check()
        await asyncio.sleep(2 * SHORT_S)
    # The first check after an outage shows nothing: readers could not renew.
    await worker.readers.check()
    assert worker.cancelled == []

    async with asyncio.timeout(PATIENCE_S):
        await checked_until_cancelled(run, worker)

    assert front.cancelled == []
    wait.until.set()
