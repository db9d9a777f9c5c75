"""Many readers on one server process: the memory of an idle one, and whether a busy one misses events.

Idle readers follow a run whose model is silent; active ones follow runs whose model writes as fast as it
can. In the end every stream is compared, byte by byte, with a replay of its run: nothing may be lost,
duplicated or out of order. Prints the server's memory per idle reader and the events delivered per second.

    .venv/bin/python -m benchmarks.readers --idle 500 --active 100
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from app.simulator.script import ApiRequest, Hold, Reply, Text
from app.simulator.server import Simulator
from benchmarks.servers import running_server

WORDS = 1500
RUNS = 4
TIMEOUT_S = 120.0
SETTLE_S = 2.0
"""How long memory may settle before it is measured."""


@dataclass(slots=True)
class Reader:
    """A reader of a run, and what it received."""

    run_id: str
    raw: bytearray = field(default_factory=bytearray)
    first: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, http: httpx.AsyncClient) -> None:
        """Read to the end."""
        async with http.stream("GET", f"/v1/runs/{self.run_id}/events") as response:
            response.raise_for_status()
            async for chunk in response.aiter_raw():
                self.raw += chunk
                self.first.set()

    @property
    def events(self) -> list[bytes]:
        """The frames that contain an event."""
        return [frame for frame in bytes(self.raw).split(b"\n\n") if b"\ndata: " in frame]


def _one_key_for(readers: int) -> dict[str, str]:
    return {"RUNTALLY_MAX_READERS_PER_KEY": str(readers), "RUNTALLY_MAX_READERS_PER_RUN": str(readers)}


async def main(idle: int, active: int) -> None:
    """Run and print."""
    pause = Hold(index=4)

    def respond(request: ApiRequest) -> Reply:
        if "wait" in request.last_text:
            return Reply([Text("This takes a while.")], hold=pause)
        return Reply([Text("word " * WORDS)])

    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        async with (
            Simulator(respond) as simulator,
            running_server(simulator.url, Path(name), idle=0, **_one_key_for(idle + active)) as (
                client,
                server,
            ),
            _reading(client) as http,
        ):
            await _start(client, "silent", "wait")
            await pause.reached.wait()
            await _measure(http, client, server, pause, idle=idle, active=active)


async def _measure(
    http: httpx.AsyncClient,
    client: httpx.AsyncClient,
    server: psutil.Process,
    pause: Hold,
    *,
    idle: int,
    active: int,
) -> None:
    await _come_and_go(http, "silent")
    await asyncio.sleep(SETTLE_S)
    before = server.memory_info().rss
    quiet = [Reader("silent") for _ in range(idle)]
    waiting = [asyncio.create_task(reader.follow(http)) for reader in quiet]
    await asyncio.gather(*(reader.first.wait() for reader in quiet))
    await asyncio.sleep(SETTLE_S)
    per_reader = (server.memory_info().rss - before) / idle / 1024

    names = [f"busy-{number}" for number in range(RUNS)]
    busy = [Reader(names[number % RUNS]) for number in range(active)]
    started = time.perf_counter()
    for run_id in names:
        await _start(client, run_id, "go")
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(reader.follow(http) for reader in busy))
    lasted = time.perf_counter() - started
    pause.until.set()
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*waiting)

    delivered = sum(len(reader.events) for reader in busy)
    print(f"{idle} idle readers: {per_reader:.1f} KiB of the server's memory each")
    print(f"{active} active readers of {RUNS} runs, together: {delivered} events in {lasted:.1f} s")
    print(f"  = {delivered / lasted:,.0f} events/s, the runs' own time included")
    replays = {run_id: await _replayed(client, run_id) for run_id in ["silent", *names]}
    wrong = [reader for reader in [*quiet, *busy] if reader.events != replays[reader.run_id]]
    print(f"streams that differ from their replay: {len(wrong)} of {idle + active}")


async def _come_and_go(http: httpx.AsyncClient, run_id: str) -> None:
    """Make the server do its one-time work before measuring."""
    reader = Reader(run_id)
    following = asyncio.create_task(reader.follow(http))
    await reader.first.wait()
    following.cancel()
    await asyncio.wait({following})


async def _start(http: httpx.AsyncClient, run_id: str, prompt: str) -> None:
    body = {
        "runId": run_id,
        "graphId": "claude_agents:summarizer",
        "messages": [{"role": "user", "content": prompt}],
    }
    (await http.post("/v1/runs", json=body)).raise_for_status()


async def _replayed(http: httpx.AsyncClient, run_id: str) -> list[bytes]:
    replay = Reader(run_id)
    await replay.follow(http)
    return replay.events


def _reading(like: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client with enough connections for every reader."""
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": like.headers["Authorization"]}
    return httpx.AsyncClient(
        base_url=like.base_url, headers=headers, timeout=TIMEOUT_S, limits=limits, trust_env=False
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=500)
    parser.add_argument("--active", type=int, default=100)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.idle, arguments.active))
