"""How long commands take over HTTP, and how soon runs of a process that stops go on elsewhere."""

import asyncio
import contextlib
import itertools
import json
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping

import psutil

from benchmarks.fleet.deployment import MAIL_GRAPH, Deployment, Program, System, post
from benchmarks.fleet.model import LIVE, MAIL
from benchmarks.fleet.section import Metric, Section, quantile
from benchmarks.fleet.sizes import Sizes

_POLL_S = 0.01
_AT_ONCE = 8
_TAKEN_OVER_WITHIN_S = 60.0


async def waiting_runs(system: System, count: int) -> list[tuple[str, str]]:
    """Start runs that wait for a person's decision; returns the ids of runs and requests."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def start(number: int) -> tuple[str, str]:
        http = system.apis[number % len(system.apis)].http
        async with places:
            run_id = await post(http, MAIL, graphId=MAIL_GRAPH)
            async with http.stream("GET", f"/v1/runs/{run_id}/events") as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: ") and '"requestId"' in line:
                        return run_id, json.loads(line.removeprefix("data: "))["requestId"]
        message = f"run {run_id} has ended without a request"
        raise RuntimeError(message)

    return list(await asyncio.gather(*(start(number) for number in range(count))))


async def _timed(calls: Iterable[Callable[[], Awaitable[object]]]) -> list[float]:
    found = []
    for call in calls:
        began = time.perf_counter()
        await call()
        found.append((time.perf_counter() - began) * 1000)
    return found


async def _commands(deployment: Deployment, system: System, sizes: Sizes) -> dict[str, float]:
    http = system.apis[0].http

    def call(path: str, body: Mapping[str, str]) -> Callable[[], Awaitable[object]]:
        async def sent() -> None:
            (await http.post(path, json=body)).raise_for_status()

        return sent

    found: dict[str, list[float]] = {}
    waiting = await waiting_runs(system, sizes.commands)
    found["decision"] = await _timed(
        call(f"/v1/runs/{run}/permissions/{request}", {"decision": "deny"}) for run, request in waiting
    )
    await system.finish(deployment.model)
    live = [await post(http, LIVE) for _ in range(min(sizes.commands, sizes.runs // 2))]
    await system.until_running(len(live))
    message = {"content": f"Go on. {LIVE}", "priority": "now"}
    found["message"] = await _timed(call(f"/v1/runs/{run}/messages", message) for run in live)
    found["cancel"] = await _timed(call(f"/v1/runs/{run}/cancel", {}) for run in live)
    await system.finish(deployment.model)
    return {
        f"{name}{share}": quantile(times, share / 100)
        for (name, times), share in itertools.product(found.items(), (50, 99))
    }


async def _handover(deployment: Deployment, system: System, sizes: Sizes) -> dict[str, float]:
    places = sizes.resumable
    for number in range(places):
        await post(system.apis[0].http, LIVE, stateKey=f"chat-{number}")
    await system.until_running(places)
    # Their conversations hold the messages so far.
    await asyncio.sleep(1.0)
    ids = {worker.process.pid: await _process_id(system, worker) for worker in system.workers}
    killed, stopped = (system.workers[index] for index in (0, 1))
    kill = await _times_of(
        system, ids[killed.process.pid], lambda: killed.process.send_signal(signal.SIGKILL)
    )
    began = await _times_of(
        system, ids[stopped.process.pid], lambda: stopped.process.send_signal(signal.SIGTERM)
    )
    await system.finish(deployment.model)
    others = [kill.by_process[each] for pid, each in ids.items() if pid != killed.process.pid]
    return {
        "killed": max(kill.seconds, default=float("inf")) - sizes.lease_s,
        "runs": len(kill.seconds),
        "uneven": max(others) - min(others),
        "p50": quantile(began.seconds, 0.5),
        "p99": quantile(began.seconds, 0.99),
        "handed": len(began.seconds),
    }


class _Times:
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.by_process: Counter[str] = Counter()


async def _times_of(system: System, process_id: str, stop: Callable[[], None]) -> _Times:
    """How long after `stop` each run of a process executes in another one."""
    rows = await system.database.fetch(
        "SELECT run_id FROM runs WHERE status = 'running' AND process_id = $1", process_id
    )
    times, began = _Times(), time.monotonic()
    left = {row["run_id"] for row in rows}
    stop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_TAKEN_OVER_WITHIN_S):
            while left:
                found = await system.database.fetch(
                    """
                    SELECT run_id, process_id FROM runs
                     WHERE status = 'running' AND run_id = ANY($1) AND process_id <> $2
                    """,
                    list(left),
                    process_id,
                )
                now = time.monotonic() - began
                for row in found:
                    left.remove(row["run_id"])
                    times.seconds.append(now)
                    times.by_process[str(row["process_id"])] += 1
                await asyncio.sleep(_POLL_S)
    times.seconds += [float("inf")] * len(left)
    return times


async def _process_id(system: System, program: Program) -> str:
    """The id of a process in the database, by the ports of its connections."""
    ports = [each.laddr.port for each in psutil.Process(program.process.pid).net_connections("tcp")]
    name: str = await system.database.fetchval(
        """
        SELECT application_name FROM pg_stat_activity
         WHERE client_port = ANY($1) AND application_name LIKE 'runtally %' LIMIT 1
        """,
        ports,
    )
    return name.removeprefix("runtally ")


COMMANDS = Section(
    "commands",
    (
        Metric("decision50", "a decision over HTTP, p50 ms"),
        Metric("decision99", "a decision over HTTP, p99 ms", 10),
        Metric("message50", "a message `now`, until it has its position, p50 ms"),
        Metric("message99", "a message `now`, p99 ms", 10),
        Metric("cancel50", "a cancellation over HTTP, p50 ms"),
        Metric("cancel99", "a cancellation over HTTP, p99 ms", 10),
    ),
    _commands,
)
HANDOVER = Section(
    "handover",
    (
        Metric("killed", "kill -9: last run goes on after, s beyond the lease", 2),
        Metric("runs", "runs of the killed worker"),
        Metric("uneven", "difference of the others' shares of these, runs"),
        Metric("p50", "SIGTERM: a run goes on after, p50 s"),
        Metric("p99", "SIGTERM: a run goes on after, p99 s"),
        Metric("handed", "runs of the stopped worker"),
    ),
    _handover,
    fleet_only=True,
)
