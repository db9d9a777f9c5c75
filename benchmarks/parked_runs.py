"""Many runs that wait for an approval without a process, through a restart of their server.

Runs of `messages` are posted; each asks before its only tool call, and is parked. The server is stopped and
started again, and every call is allowed: each tool must run exactly once, and there must be one receipt for
each message that the model has sent. Prints numbers; timing is never a test.

    .venv/bin/python -m benchmarks.parked_runs
    .venv/bin/python -m benchmarks.parked_runs --runs 10000
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqlalchemy import text

from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from app.simulator.server import Simulator
from benchmarks.markdown import table
from benchmarks.servers import UNLIMITED
from tests.e2e.noting_tool import noted, settings
from tests.e2e.servers import a_server, an_environment

GRAPH = "messages:noter"
_AT_ONCE = 16
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of so many runs."""

    runs: int
    post_s: float
    """From the first post until the last run is parked."""
    server_mib: float
    """Of the restarted server while all wait."""
    children: int
    """Its processes besides."""
    answers: list[float]
    """The seconds that each answer took."""
    cpu_s: float
    """Of the server from the first answer on."""
    resume_s: float
    """From the first answer until the last run has ended."""
    succeeded: int
    executed_once: int
    messages: int
    receipts: int


def respond(request: ApiRequest) -> Reply:
    """The model: one call of the tool, then an answer."""
    if request.tool_results:
        return Reply([Text("Done.")])
    return Reply([ToolUse("desk__note", {"text": request.last_text})])


async def measure(runs: int, directory: Path) -> Measured:
    """Post, restart, answer."""
    postgres = EmbeddedPostgres.start(directory / "postgres")
    async with postgres as running, Simulator(respond) as simulator:
        chosen = {
            # Longer than all take to be parked: by default a call expires after five minutes.
            **settings(directory, approval_timeout_s=86_400),
            **UNLIMITED,
            "RUNTALLY_PARK_AFTER_S": "0.2",
            "RUNTALLY_MAX_QUEUED_RUNS": str(2 * runs + 1000),
            "RUNTALLY_MAX_CONCURRENT_RUNS": "32",
            "DATABASE_URL": running.url,
        }
        await _migrate(directory, simulator.url, chosen)
        database = await Database.open(running.url)
        try:
            began = time.monotonic()
            async with a_server(directory, simulator.url, **chosen) as (_, http):
                await _each(range(runs), lambda number: _post(http, number))
                await _until(database, runs, "waiting")
            post_s = time.monotonic() - began
            async with a_server(directory, simulator.url, **chosen) as (server, http):
                server_mib = server.memory_info().rss / 2**20
                children = [child.name() for child in server.children(recursive=True)]
                requests = await _rows(database, "SELECT run_id, call_id FROM run_waits ORDER BY run_id")
                answers: list[float] = []
                began, used = time.monotonic(), _cpu_s(server)
                await _each(requests, lambda row: _allow(http, row, answers))
                await _until(database, runs, "succeeded")
                resume_s, cpu_s = time.monotonic() - began, _cpu_s(server) - used
                receipts = await _receipts(database, len(simulator.requests))
            counted = Counter(noted(directory))
            return Measured(
                runs,
                post_s,
                server_mib,
                len(children),
                answers,
                cpu_s,
                resume_s,
                succeeded=await _count(database, "succeeded"),
                executed_once=sum(count == 1 for count in counted.values()),
                messages=len(simulator.requests),
                receipts=receipts,
            )
        finally:
            await database.aclose()


async def _migrate(directory: Path, provider_url: str, chosen: dict[str, str]) -> None:
    environment = an_environment(directory, provider_url, **chosen)
    migrating = await asyncio.create_subprocess_exec(sys.executable, "-m", "app", "migrate", env=environment)
    if await migrating.wait():
        raise SystemExit("the schema could not be migrated")


async def _post(http: httpx.AsyncClient, number: int) -> None:
    message = {"role": "user", "content": f"note {number}"}
    body = {"graphId": GRAPH, "runId": f"run-{number}", "messages": [message]}
    (await http.post("/v1/runs", json=body)).raise_for_status()


async def _allow(http: httpx.AsyncClient, row: Any, answers: list[float]) -> None:
    began = time.monotonic()
    path = f"/v1/runs/{row.run_id}/permissions/{row.call_id}"
    (await http.post(path, json={"decision": "allow"})).raise_for_status()
    answers.append(time.monotonic() - began)


async def _each(items: Any, do: Callable[[Any], Awaitable[None]]) -> None:
    left = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


async def _until(database: Database, runs: int, status: str) -> None:
    """Wait until all runs have this status; exits if one has ended otherwise."""
    ended = "SELECT run_id, status, final FROM runs WHERE ended_at IS NOT NULL AND status <> :status LIMIT 1"
    while await _count(database, status) < runs:
        for other in await _rows(database, ended, status=status):
            raise SystemExit(f"{other.run_id} has ended: {other.status}, {other.final}")
        await asyncio.sleep(_POLL_S)


async def _receipts(database: Database, expected: int) -> int:
    """The receipts, once there are as many as expected, or no more come."""
    found, before = -1, -2
    while found not in (expected, before):
        await asyncio.sleep(2)
        before, found = (
            found,
            (await _rows(database, "SELECT count(*) AS found FROM charge_receipts"))[0].found,
        )
    return found


async def _count(database: Database, status: str) -> int:
    statement = "SELECT count(*) AS found FROM runs WHERE status = :status"
    found: int = (await _rows(database, statement, status=status))[0].found
    return found


async def _rows(database: Database, statement: str, **values: object) -> list[Any]:
    async with database.read() as reader:
        return list(await reader.execute(text(statement), values))


def report(found: Measured) -> str:
    """The numbers as a table."""
    answers = sorted(found.answers)
    rows = [
        ["runs", str(found.runs)],
        ["posted and parked, runs/s", f"{found.runs / found.post_s:.0f}"],
        ["the restarted server while all wait, MiB", f"{found.server_mib:.0f}"],
        ["processes of the runs", str(found.children)],
        ["an answer, ms: p50, p99", f"{_at(answers, 0.5):.0f}, {_at(answers, 0.99):.0f}"],
        ["answered, executed and ended, runs/s", f"{found.runs / found.resume_s:.0f}"],
        ["CPU of the server for each of these, ms", f"{found.cpu_s / found.runs * 1000:.0f}"],
        ["runs that succeeded", str(found.succeeded)],
        ["tools executed exactly once", str(found.executed_once)],
        ["messages of the model, receipts", f"{found.messages}, {found.receipts}"],
    ]
    return table(["", "measured"], rows)


def _cpu_s(server: psutil.Process) -> float:
    times = server.cpu_times()
    return times.user + times.system


def _at(values: list[float], part: float) -> float:
    return values[min(len(values) - 1, int(len(values) * part))] * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(report(asyncio.run(measure(options.runs, Path(directory)))))


if __name__ == "__main__":
    main()
