"""Processes with roles: a run goes on although its worker and the API that streams it are replaced."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text
from app.simulator.server import Simulator
from tests.e2e.agents import CLAUDE, named
from tests.e2e.office import WORKER, settings
from tests.e2e.servers import a_server
from tests.e2e.stories import a_request
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.long


@asynccontextmanager
async def a_fleet(
    directory: Path, provider_url: str, *roles: str, **shared: str
) -> AsyncIterator[list[tuple[psutil.Process, httpx.AsyncClient]]]:
    """Processes of these roles; those of the API have no key of the provider."""
    async with AsyncExitStack() as stack:

        async def opened(number: int, role: str) -> tuple[psutil.Process, httpx.AsyncClient]:
            (directory / f"{role}-{number}").mkdir(parents=True)
            own = {"ANTHROPIC_API_KEY": ""} if role == "api" else {}
            return await stack.enter_async_context(
                a_server(directory / f"{role}-{number}", provider_url, role=role, **{**shared, **own})
            )

        yield list(await asyncio.gather(*(opened(*each) for each in enumerate(roles))))


async def test_readers_and_the_next_turn_notice_nothing_of_a_deployment(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    holds = [Hold(index=5), Hold(index=5)]

    def respond(request: ApiRequest) -> Reply:
        if "again" in request.last_text:
            return Reply([Text("You are welcome.")])
        return Reply([Text(["one two three four", "five six seven eight"][len(simulator.sent)])], hold=held())

    def held() -> Hold:
        return holds[len(simulator.sent)]

    shared = _shared(tmp_path) | {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    async with (
        Simulator(named(CLAUDE, respond)) as simulator,
        a_fleet(tmp_path, simulator.url, "api", "api", "worker", **shared) as (first, second, old),
    ):
        body = a_request("count", runId="kept", stateKey="chat-1", graphId=WORKER)
        preview = await first[1].post("/v1/runs/preview", json=body)
        assert (await old[1].post("/v1/runs", json=body)).status_code == 404
        assert first[0].children() == []
        posted = await first[1].post("/v1/runs", json=body)
        reading = asyncio.create_task(read(first[1], "kept"))
        waiting = asyncio.create_task(first[1].post("/v1/runs/wait", json=body))
        await holds[0].reached.wait()
        async with a_fleet(tmp_path / "new", simulator.url, "worker", **shared) as (_new,):
            old[0].send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_S):
                await holds[1].reached.wait()
                await asyncio.to_thread(old[0].wait)
            # The stream is at the second attempt when its server stops.
            first[0].send_signal(signal.SIGTERM)
            frames, refused = await reading, await waiting
            reconnecting = asyncio.create_task(read(second[1], "kept", after=ids_of(frames)[-1]))
            holds[1].until.set()
            rest = await reconnecting
            run = (await second[1].get("/v1/runs/kept")).json()
            receipts = (await second[1].get("/v1/runs/kept/receipts")).json()["items"]
            thanks = a_request("again", stateKey="chat-1", graphId=WORKER)
            answer = (await second[1].post("/v1/runs/wait", json=thanks)).json()
            asked = simulator.requests[-1]
        holds[0].until.set()

    assert (preview.status_code, posted.status_code) == (200, 202)
    assert (refused.status_code, refused.json()["type"]) == (503, "urn:runtally:problem:shutting_down")
    _assert_continued(frames, rest)
    assert (run["attempt"], run["final"]["content"]) == (1, "five six seven eight")
    assert {(r["attempt"], r["usageUnitId"], r["basis"]) for r in receipts} == {
        (0, simulator.sent[0].message_id, "partial"),
        (1, simulator.sent[1].message_id, "final"),
    }
    assert answer["content"] == "You are welcome."
    # The interrupted answer is not in the conversation, and the one that was given is.
    assert "five six seven eight" in str(asked.messages)
    assert "interrupted by user" not in str(asked.messages).lower()


def _shared(directory: Path) -> dict[str, str]:
    return {name: str(value) for name, value in settings(directory).items()} | {"RUNTALLY_DRAIN_S": "0"}


def _assert_continued(frames: list[str], rest: list[str]) -> None:
    """Each event was sent once, and the end last."""
    assert frames[-1].startswith("retry: ")
    ids = ids_of(frames) + ids_of(rest)
    assert ids == sorted(set(ids))
    assert [frame for frame in frames + rest if "event: done" in frame] == rest[-1:]


async def read(http: httpx.AsyncClient, run: str, *, after: int = 0) -> list[str]:
    """The frames of a stream until its end."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    async with http.stream("GET", f"/v1/runs/{run}/events", headers=headers) as response:
        text = "".join([part async for part in response.aiter_text()])
    lines = [line for line in text.split("\n") if not line.startswith((":", "retry: 2000"))]
    # `retry:` may be a block of its own, as an earlier release sends it.
    return [frame for each in "\n".join(lines).split("\n\n") if (frame := each.strip("\n"))]


def ids_of(frames: list[str]) -> list[int]:
    """The positions of the events in these frames."""
    return [int(frame.split("\n")[0].removeprefix("id: ")) for frame in frames if frame.startswith("id: ")]
