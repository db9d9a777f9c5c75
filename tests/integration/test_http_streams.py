"""Event streams over HTTP: disconnects, heartbeats and shutdown."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from app.cli.addresses import listen, url_of
from app.http.app import create_app
from app.http.streaming.encoder import RETRY_LINE
from app.simulator.script import in_turn
from tests.e2e import stories
from tests.factories import a_wait, reached_by, scripted
from tests.integration.mcp_messages import TOKEN, a_call
from tests.integration.statements import execute
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

COUNT = WriteMessage("one two three")
HEARTBEAT = b":\n"
DISCARDED_LATER = (
    """
    UPDATE run_events AS step
       SET data = json_build_object('type', 'message_discarded', 'messageId', delta.data->>'messageId')
      FROM run_events AS delta
     WHERE delta.data->>'delta' = 'It' AND step.data->>'stepIndex' = '1'
    """,
    """
    UPDATE run_events SET data = jsonb_set(data::jsonb, '{delta}', to_jsonb(repeat('x', 300000)))
     WHERE data->>'delta' = 'It'
    """,
)
"""More stored text than is read at once, and after it the end of its message."""


async def test_heartbeats_do_not_change_the_events(world_of: stories.WorldOf) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(COUNT._replace(before_end=wait)))
    await world.start(stories.a_request(runId="silent-1"))
    await reached_by(wait)

    async with another_server(world, heartbeat_s=0.05) as client:
        received = b""
        async with client.stream("GET", "/v1/runs/silent-1/events") as response:
            async for chunk in response.aiter_bytes():
                received += chunk
                if received.count(HEARTBEAT) == 3:
                    wait.until.set()

    assert received.startswith(RETRY_LINE)
    assert received.count(HEARTBEAT) >= 3
    assert stories.events_only(received) == await world.raw("silent-1")
    assert stories.events_only(received) == received.replace(RETRY_LINE, b"").replace(HEARTBEAT, b"")


async def test_disconnected_readers_release_all_resources(world_of: stories.WorldOf) -> None:
    wait = a_wait()
    executors = scripted(COUNT._replace(before_end=wait))
    world = await world_of(in_turn(), executors=executors, RUNTALLY_MAX_READERS_PER_RUN=31)
    await world.start(stories.a_request(runId="crowd-1"))
    await reached_by(wait)
    await leave_at_the_first_event(world, "crowd-1")
    before = len(asyncio.all_tasks())

    await asyncio.gather(*[leave_at_the_first_event(world, "crowd-1") for _ in range(30)])

    await stories.until(lambda: len(asyncio.all_tasks()) <= before)
    await stories.until(lambda: world.services.database.use.in_use == 0)
    # Those that have left are not counted.
    await leave_at_the_first_event(world, "crowd-1")
    wait.until.set()
    assert (await world.ended("crowd-1"))["status"] == "succeeded"


async def test_open_streams_hold_no_database_connection(world_of: stories.WorldOf) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(COUNT._replace(before_end=wait)))
    await world.start(stories.a_request(runId="open-1"))
    await reached_by(wait)
    readers = [asyncio.create_task(world.raw("open-1")) for _ in range(20)]

    async with asyncio.timeout(PATIENCE_S):
        while world.services.database.use.in_use:
            await asyncio.sleep(0.01)
        ready = await world.http.get("/readyz")
    wait.until.set()

    assert ready.status_code == 200
    assert len(set(await asyncio.gather(*readers))) == 1


async def test_a_server_that_stops_does_not_wait_for_its_readers(world_of: stories.WorldOf) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(COUNT._replace(before_end=wait)))
    await world.start(stories.a_request(runId="stop-1"))
    await reached_by(wait)

    async with another_server(world) as client, client.stream("GET", "/v1/runs/stop-1/events") as response:
        chunks = response.aiter_bytes()
        assert await anext(chunks) == RETRY_LINE

    wait.until.set()
    assert (await world.ended("stop-1"))["status"] == "succeeded"


async def test_a_stream_that_a_stopping_server_cuts_short_is_not_taken_for_a_complete_one(
    world_of: stories.WorldOf,
) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(COUNT._replace(before_end=wait)))
    chat = {"id": "c", "messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "x"}]}]}
    thread = {"threadId": "t", "runId": "r-2", "messages": [{"id": "u", "role": "user", "content": "x"}]}
    question = {"role": "user", "content": "x"}
    completion = {"model": "claude_agents:assistant", "messages": [question], "stream": True}
    posts = {
        "/v1/runs/stream": stories.a_request(runId="r-1"),
        "/v1/ag-ui/claude_agents:assistant": thread,
        "/v1/ai-sdk/claude_agents:assistant/chat": chat,
        "/openai/v1/chat/completions": completion,
        "/openai/v1/responses": {"model": completion["model"], "input": "x", "stream": True},
        "/mcp": a_call("claude_agents__assistant", "x", **TOKEN),
    }
    app = create_app(world.services)
    sessions = "/managed-agents/v1/sessions"
    idle = {"agent": "claude_agents:assistant", "environment_id": "env_default"}
    session = (await world.http.post(sessions, json=idle)).json()["id"]

    async with another_server(world, app=app) as client:
        reading = [asyncio.create_task(client.post(path, json=body)) for path, body in posts.items()]
        reading.append(asyncio.create_task(client.get(f"{sessions}/{session}/events/stream")))
        await stories.until(lambda: len(app.state.open_streams) == len(reading))
        await app.state.open_streams.close()
        native, ag_ui, ai_sdk, openai, responses, mcp, managed = [(await each).text for each in reading]
    wait.until.set()

    assert re.search(r"\nretry: \d+\n$", native)
    assert json.loads(ag_ui.split("data:")[-1])["code"] == "shutting_down"
    assert ai_sdk.endswith('data: {"type":"error","errorText":"shutting_down"}\n\n')
    assert json.loads(openai.split("data:")[-1])["error"]["code"] == "shutting_down"
    assert json.loads(responses.split("data:")[-1])["code"] == "shutting_down"
    assert re.search(r"\nretry: \d+\n$", mcp)
    assert managed.startswith("event: error\n")


async def test_a_message_that_is_posted_again_does_not_show_what_its_run_has_discarded(
    world_of: stories.WorldOf,
) -> None:
    """As `resumeStream`, also where the text and its end are read one after the other."""
    world = await world_of(in_turn(), executors=scripted(WriteMessage("It"), WriteMessage("Noon.")))
    message = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "x"}]}
    path, body = "/v1/ai-sdk/claude_agents:assistant/chat", {"id": "c", "messages": [message]}
    first = await world.http.post(path, json=body)
    await execute(world.services.database, *DISCARDED_LATER)

    again = await world.http.post(path, json=body)

    assert '"delta":"It"' in first.text
    assert "message-discarded" in again.text
    assert "xxx" not in again.text
    assert '"delta":"Noon."' in again.text


async def test_disconnecting_from_wait_does_not_stop_the_run(world_of: stories.WorldOf) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(COUNT._replace(before_end=wait)))
    waiting = asyncio.create_task(world.http.post("/v1/runs/wait", json=stories.a_request(runId="wait-1")))
    await reached_by(wait)

    waiting.cancel()
    await asyncio.wait({waiting})
    wait.until.set()

    assert (await world.ended("wait-1"))["final"]["content"] == "one two three"


async def test_an_error_before_the_first_byte_is_a_problem_document(world_of: stories.WorldOf) -> None:
    world = await world_of(in_turn())

    posted = await world.http.post("/v1/runs/stream", json=stories.a_request(toolIds=["nope"]))
    joined = await world.http.get("/v1/runs/nope/events", headers={"Accept": "text/event-stream"})

    assert (posted.status_code, joined.status_code) == (422, 404)
    for response in (posted, joined):
        assert response.headers["content-type"] == "application/problem+json"


async def test_last_event_id_takes_precedence_over_after(world_of: stories.WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(COUNT))
    await world.run(stories.a_request(runId="both-1"))

    both = await world.raw("both-1", params={"after": 1}, headers={"Last-Event-ID": "3"})
    empty = await world.raw("both-1", params={"after": 1}, headers={"Last-Event-ID": ""})

    assert stories.positions(both)[0] == 4
    assert stories.positions(empty)[0] == 2


async def test_a_repeated_post_continues_after_the_last_event(world_of: stories.WorldOf) -> None:
    """Only if it joins a run: the id is none of a new one."""
    world = await world_of(in_turn(), executors=scripted(COUNT))
    url, last = "/v1/runs/stream", {"Last-Event-ID": "3"}
    named, keyed = stories.a_request(runId="post-1"), {"Idempotency-Key": "post-2"}

    whole = [
        await world.http.post(url, json=named),
        await world.http.post(url, json=stories.a_request(), headers=keyed),
        await world.http.post(url, json=stories.a_request(), headers=last),
    ]
    rest = [
        await world.http.post(url, json=named, headers=last),
        await world.http.post(url, json=stories.a_request(), headers=keyed | last),
    ]

    ids = stories.positions(whole[0].content)
    assert [stories.positions(each.content) for each in whole] == [ids] * 3
    assert [stories.positions(each.content) for each in rest] == [ids[3:]] * 2


async def test_a_reader_of_the_last_event_learns_that_nothing_follows(world_of: stories.WorldOf) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(COUNT._replace(before_end=wait)))
    url = "/v1/runs/end-1/events"
    await world.start(stories.a_request(runId="end-1"))
    await reached_by(wait)
    async with world.http.stream("GET", url, headers={"Last-Event-ID": "999999"}) as running:
        wait.until.set()
        await world.ended("end-1")
    last = (await world.raw("end-1")).count(b"id: ")

    answers = [
        await world.http.get(url, headers={"Last-Event-ID": str(position)})
        for position in (last - 1, last, last + 1, 999_999_999)
    ]

    assert running.status_code == 200
    assert [answer.status_code for answer in answers] == [200, 204, 204, 204]
    assert b"event: done" in answers[0].content
    assert (await world.http.get(url, params={"after": last})).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_head_of_a_stream_responds_at_once(world_of: stories.WorldOf, method: str) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(COUNT._replace(before_end=wait)))
    await world.start(stories.a_request(runId="head-1"))
    await reached_by(wait)

    async with world.http.stream(method, "/v1/runs/head-1/events") as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        if method == "HEAD":
            assert await response.aread() == b""
    assert (await world.http.get("/healthz")).status_code == 200
    wait.until.set()


@asynccontextmanager
async def another_server(
    world: stories.World, heartbeat_s: float = 60.0, app: FastAPI | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A second way to the same services, by itself."""
    app = app or create_app(world.services, heartbeat_s=heartbeat_s)
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as sock:
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        await stories.until(lambda: server.started)
        async with stories.a_client(url_of(sock), stories.KEY) as client:
            yield client
            server.should_exit = True
            async with asyncio.timeout(PATIENCE_S):
                await serving


async def leave_at_the_first_event(world: stories.World, run_id: str) -> None:
    """Read a stream until it says something, then hang up."""
    async with (
        stories.a_client(world.url) as client,
        client.stream("GET", f"/v1/runs/{run_id}/events") as response,
    ):
        response.raise_for_status()
        received = b""
        async for chunk in response.aiter_bytes():
            received += chunk
            if b"id: 1\n" in received:
                return
