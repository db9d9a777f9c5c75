"""How runs spread over workers, and how soon they start, alone and behind the backlog of another account."""

import asyncio
import time

import asyncpg

from benchmarks.fleet.deployment import Deployment, System, post
from benchmarks.fleet.model import LIVE, SHORT
from benchmarks.fleet.section import Metric, Section, quantile
from benchmarks.fleet.sizes import Sizes

_AT_ONCE = 8
_DRAINED_S = 3.0
_SAMPLE_S = 0.02
_BETWEEN_S = 0.1

_WAITS = """
    SELECT extract(epoch FROM started_at - created_at) * 1000 AS ms
      FROM runs WHERE run_id = ANY($1) AND started_at IS NOT NULL
"""
_EXCESS = """
    SELECT coalesce(max(active), 0) - active_limit(NULL) FROM (
        SELECT count(*)::int AS active FROM runs
         WHERE status IN ('queued', 'running') AND held_for IS NULL GROUP BY account_id) AS accounts
"""
_COPY = """
    INSERT INTO runs ({columns}, run_id, held_for)
    SELECT {columns}, 'backlog-' || number, 'limit' FROM runs, generate_series(1, $2) AS number
     WHERE run_id = $1
"""


async def _spread(deployment: Deployment, system: System, sizes: Sizes) -> dict[str, float]:
    # Half of them for each of two accounts: one may use three quarters of the places.
    memory, began = _memory(system), time.monotonic()
    places = asyncio.Semaphore(_AT_ONCE)

    async def start(number: int) -> None:
        async with places:
            api = system.apis[number % len(system.apis)]
            # Not the parity that chooses the API: each account uses both.
            own = (number // 2) % 2 == 0
            await post(api.http, LIVE, headers=None if own else system.other_account)

    await asyncio.gather(*(start(number) for number in range(sizes.runs)))
    await system.until_running(sizes.runs)
    lasted = time.monotonic() - began
    running = await system.running()
    counts = [*running.values(), *([0] * (len(system.workers) - len(running)))]
    added = (_memory(system) - memory) / sizes.runs
    await system.finish(deployment.model)
    return {
        "running": sum(counts),
        "difference": (max(counts) - min(counts)) / (sum(counts) / len(counts)) * 100,
        "seconds": lasted,
        "memory": added / 1024,
    }


def _memory(system: System) -> int:
    return sum(worker.process.memory_info().rss for worker in system.workers)


async def _start(_deployment: Deployment, system: System, sizes: Sizes) -> dict[str, float]:
    began, texts = time.monotonic(), list[float]()
    ids: list[str] = []

    async def one(number: int) -> None:
        due = began + number / sizes.per_s
        await asyncio.sleep(due - time.monotonic())
        run_id = f"start-{system.name}-{number}"
        sent = time.monotonic()
        body = {"runId": run_id, "graphId": "messages:live", "messages": [{"role": "user", "content": SHORT}]}
        http = system.apis[number % len(system.apis)].http
        async with http.stream("POST", "/v1/runs/stream", json=body) as response:
            async for chunk in response.aiter_raw():
                if b"event: text_delta" in chunk:
                    texts.append((time.monotonic() - sent) * 1000)
        ids.append(run_id)

    await asyncio.gather(*(one(number) for number in range(sizes.starts)))
    waits = await _waits(system, ids)
    return {
        "p50": quantile(waits, 0.5),
        "p99": quantile(waits, 0.99),
        "text50": quantile(texts, 0.5),
        "text99": quantile(texts, 0.99),
    }


async def _waits(system: System, ids: list[str]) -> list[float]:
    """Milliseconds from the transaction that accepted a run to the one that started it, of the database."""
    return [float(row["ms"]) for row in await system.database.fetch(_WAITS, ids)]


async def _fairness(deployment: Deployment, system: System, sizes: Sizes) -> dict[str, float]:
    limit = await system.database.fetchval("SELECT active_limit(NULL)")
    # Rows that the program has written, copied: to post so many takes minutes.
    far = "2099-01-01T00:00:00Z"
    template = await post(system.apis[0].http, LIVE, startAfter=far)
    columns = await system.database.fetchval(
        """
        SELECT string_agg(column_name, ', ') FROM information_schema.columns
         WHERE table_name = 'runs' AND is_generated = 'NEVER'
           AND column_name NOT IN ('run_id', 'held_for', 'start_after')
        """
    )
    await system.database.execute(_COPY.format(columns=columns), template, limit + sizes.backlog)
    await system.until_running(limit)
    excess = [0]
    sampling = asyncio.create_task(_sample(system.url, excess))
    try:
        calm = await _one_by_one(system, sizes.singles)
        await deployment.model.release()
        draining = await _one_by_one(system, sizes.singles)
        await asyncio.sleep(min(_DRAINED_S, sizes.quiet_s))
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
        await system.database.execute("DELETE FROM runs WHERE status = 'queued' AND held_for IS NOT NULL")
    await system.finish(deployment.model)
    return {"calm": max(calm), "draining": max(draining), "excess": max(excess), "samples": len(excess) - 1}


async def _one_by_one(system: System, count: int) -> list[float]:
    http = system.apis[0].http
    ids = []
    for _ in range(count):
        ids.append(await post(http, SHORT, headers=system.other_account))
        await asyncio.sleep(_BETWEEN_S)
    async with asyncio.timeout(60):
        while len(waits := await _waits(system, ids)) < count:
            await asyncio.sleep(_BETWEEN_S)
    return waits


async def _sample(url: str, excess: list[int]) -> None:
    """How many runs of an account were active beyond its limit, at most, again and again."""
    connection = await asyncpg.connect(url)
    try:
        while True:
            excess.append(await connection.fetchval(_EXCESS))
            await asyncio.sleep(_SAMPLE_S)
    finally:
        await connection.close()


SPREAD = Section(
    "spread",
    (
        Metric("running", "runs at the same time", 1000, at_least=True),
        Metric("difference", "most and fewest runs of a worker differ, % of the mean", 10),
        Metric("seconds", "until all were started, s"),
        Metric("memory", "memory of a live run in its process, KiB"),
    ),
    _spread,
)
START = Section(
    "start",
    (
        Metric("p50", "accepted to started (database's clock), p50 ms", 3),
        Metric("p99", "accepted to started, p99 ms", 15),
        Metric("text50", "posted to first text, p50 ms"),
        Metric("text99", "posted to first text, p99 ms"),
    ),
    _start,
)
FAIRNESS = Section(
    "fairness",
    (
        Metric("calm", "one run behind a backlog, places free, slowest, ms", 50),
        Metric("draining", "one run behind a backlog that is worked off, slowest, ms", 50),
        Metric("excess", "active runs above an account's limit, most", 0),
        Metric("samples", "number of samples of that"),
    ),
    _fairness,
)
