"""Runs with `onDisconnect: cancel` whose readers were connected to a server that is killed."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from app.simulator.script import in_turn
from tests.e2e.servers import a_server
from tests.e2e.stories import WorldOf, a_request
from tests.factories import a_wait, reached_by, scripted
from tests.integration.test_unread_runs import CANCEL, follow, shorten_grace
from tests.scripted import WriteMessage


async def read(stack: AsyncExitStack, http: httpx.AsyncClient, until: bytes, **body: Any) -> None:
    """Start a run and read it until there is this; the reader stays connected."""
    posted = http.stream("POST", "/v1/runs/stream", json=a_request(**body, **CANCEL))
    response = await stack.enter_async_context(posted)
    received, chunks = b"", response.aiter_bytes()
    stack.callback(lambda: chunks)
    while until not in received:
        received += await anext(chunks)


async def test_runs_end_once_the_server_of_their_only_reader_is_lost(
    world_of: WorldOf, admin: asyncpg.Connection, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    wait = a_wait()
    executors = scripted(WriteMessage("one two three", before_end=wait))
    shared = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "RUNTALLY_DISCONNECT_GRACE_S": "3600"}
    world = await world_of(in_turn(), executors=executors, **shared)
    await world.start(a_request(runId="busy", stateKey="chat"))
    await reached_by(wait)
    (tmp_path / "api").mkdir()
    async with AsyncExitStack() as stack:
        api = a_server(tmp_path / "api", world.simulator.url, role="api", **shared)
        server, elsewhere = await stack.enter_async_context(api)
        for run in ("left", "returned"):
            await read(stack, elsewhere, b"two", runId=run)
        for run, http in (("queued", elsewhere), ("queued-here", world.http)):
            async with AsyncExitStack() as reader:
                connection = stack if http is elsewhere else reader
                await read(connection, http, b"queued", runId=run, stateKey="chat")

        server.kill()
        # Each server does this once a minute.
        await world.services.readers.sweep()
        await follow(world, "returned", stack)
        assert (await world.http.get("/v1/runs/left")).json()["status"] == "running"
        shorten_grace(world)
        ended = {run: await world.ended(run) for run in ("left", "queued", "queued-here")}

        assert {run["status"] for run in ended.values()} == {"cancelled"}
        assert (await world.http.get("/v1/runs/returned")).json()["status"] == "running"
        for run in ("queued", "queued-here"):
            assert [event.type for event in [event async for event in world.follow(run)]][-2:] == [
                "error",
                "done",
            ]
            assert "run_started" not in {event.type async for event in world.follow(run)}
        assert [len(await world.receipts(run)) for run in ended] == [1, 0, 0]
        wait.until.set()
        assert (await world.ended("returned"))["status"] == "succeeded"
        assert (await world.ended("busy"))["status"] == "succeeded"
        await world.services.readers.sweep()
        assert await admin.fetchval("SELECT count(*) FROM run_readers") == 0
