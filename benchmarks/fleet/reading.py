"""Events on their way to readers: of a fleet through the relay, and among thousands that are idle."""

import asyncio
import time
from urllib.parse import urlsplit

import httpx
import psutil

from benchmarks import relay
from benchmarks.fleet.control import waiting_runs
from benchmarks.fleet.deployment import Deployment, Program, System, cpu_s, cpu_since, post
from benchmarks.fleet.model import sent_at, stream_of
from benchmarks.fleet.section import Metric, Section, quantile
from benchmarks.fleet.sizes import Sizes

_MODERATE_S = 0.1
_IDLE_RUNS = 40
"""Fewer than one account may use of the places of the single process."""
_REPORTED = 1.2
"""Idle connections of PostgreSQL report what they did after up to ten seconds, the default of `quiet_s`."""

_CONNECTING = 50
_MIB = 2**20


async def _streams(system: System, sizes: Sizes, pause_s: float) -> tuple[list[float], float]:
    """Delays from the model's word to its reader in ms, of several streams at once; and how long all took."""
    delays: list[float] = []
    began = time.monotonic()
    prompt = stream_of(sizes.words, pause_s)

    async def one() -> None:
        run_id = await post(system.apis[-1].http, prompt)
        delays.extend(await _delays(system.apis[0].http, run_id))

    await asyncio.gather(*(one() for _ in range(sizes.streams)))
    return delays, time.monotonic() - began


async def _delays(http: httpx.AsyncClient, run_id: str) -> list[float]:
    found, rest = list[float](), b""
    async with http.stream("GET", f"/v1/runs/{run_id}/events") as response:
        async for chunk in response.aiter_raw():
            now = time.monotonic()
            *frames, rest = (rest + chunk).split(b"\n\n")
            for frame in frames:
                # The last answer is repeated as a whole.
                if b"event: text_delta" in frame:
                    found += [(now - at) * 1000 for at in sent_at(frame)]
    return found


async def _readers(deployment: Deployment, system: System, sizes: Sizes) -> dict[str, float]:
    moderate, _ = await _streams(system, sizes, _MODERATE_S)
    before = cpu_s(deployment)
    fast, lasted = await _streams(system, sizes, 0)
    used = cpu_since(before, deployment)
    cpu = sum(seconds for name, seconds in used.items() if name not in {"model", "benchmark"})
    found = {
        "p50": quantile(moderate, 0.5),
        "p99": quantile(moderate, 0.99),
        "rate": len(fast) / lasted,
        "cpu": cpu / max(1, len(fast)) * 1e6,
    }
    if system.name == "fleet":
        found |= await _relay_alone(deployment, sizes)
    return found


async def _relay_alone(deployment: Deployment, sizes: Sizes) -> dict[str, float]:
    """The event logs of two processes with nothing else, from publishing to the reader's batch."""
    url = deployment.relay.connection_url
    server = next(each for each in psutil.Process().children() if "valkey" in each.name())
    before = sum(server.cpu_times()[:2])
    load = relay.Load("fleet as fast as it can", sizes.streams, sizes.events // sizes.streams, 0.0)
    fast = await asyncio.to_thread(relay.measure, url, load)
    of_server = (sum(server.cpu_times()[:2]) - before) / max(1, fast.received) * 1e6
    calm_load = relay.Load("fleet moderate", sizes.streams, sizes.words, _MODERATE_S)
    calm = await asyncio.to_thread(relay.measure, url, calm_load)
    return {
        "relay50": calm.delay_ms(0.5),
        "relay99": calm.delay_ms(0.99),
        "relay_rate": fast.rate,
        "relay_cpu": fast.cpu_us + of_server,
        "valkey_cpu": of_server,
    }


async def _idle(deployment: Deployment, system: System, sizes: Sizes) -> dict[str, float]:
    """A process without history, so that its memory is that of its readers."""
    api = system.apis[0] if system.name == "single" else await deployment.another_api(system)
    runs = [run for run, _ in await waiting_runs(system, min(_IDLE_RUNS, sizes.idle))]
    first = await _connected(api, runs[:1])
    await asyncio.sleep(sizes.quiet_s * _REPORTED)
    baseline = await _transactions(system, sizes.quiet_s)
    before = api.process.memory_info().rss
    connections = await _connected(api, [runs[number % len(runs)] for number in range(sizes.idle)])
    await asyncio.sleep(sizes.quiet_s * _REPORTED)
    added = api.process.memory_info().rss - before
    used = cpu_seconds(api.process)
    transactions = await _transactions(system, sizes.quiet_s)
    share = (cpu_seconds(api.process) - used) / sizes.quiet_s * 100
    run_id = await post(system.apis[-1].http, stream_of(sizes.words, _MODERATE_S))
    delays = await _delays(api.http, run_id)
    for writer in [*first, *connections]:
        writer.close()
        await writer.wait_closed()
    for run in runs:
        (await system.apis[0].http.post(f"/v1/runs/{run}/cancel")).raise_for_status()
    await system.finish(deployment.model)
    return {
        "readers": len(connections),
        "p50": quantile(delays, 0.5),
        "p99": quantile(delays, 0.99),
        "transactions": transactions - baseline,
        "memory": added / sizes.idle / 1024,
        "resident": before / _MIB,
        "share": share,
    }


def cpu_seconds(process: psutil.Process) -> float:
    """Of this process."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def _transactions(system: System, seconds: float) -> float:
    """Transactions per second in the database of a system, by all its processes."""
    query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    before = await system.database.fetchval(query)
    await asyncio.sleep(seconds)
    return float(await system.database.fetchval(query) - before) / seconds


async def _connected(api: Program, runs: list[str]) -> list[asyncio.StreamWriter]:
    """Readers that have got the events so far. Bare connections: a client library would use the processor."""
    url = urlsplit(str(api.http.base_url))
    places = asyncio.Semaphore(_CONNECTING)
    authorization = api.http.headers["Authorization"]

    async def connect(run: str) -> asyncio.StreamWriter:
        async with places:
            reader, writer = await asyncio.open_connection(url.hostname, url.port)
            head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {url.netloc}\r\n"
            writer.write(f"{head}Authorization: {authorization}\r\n\r\n".encode())
            await reader.readuntil(b"event: permission_request")
            return writer

    return list(await asyncio.gather(*map(connect, runs)))


READERS = Section(
    "readers",
    (
        Metric("p50", "model's word to a reader, p50 ms"),
        Metric("p99", "model's word to a reader, p99 ms"),
        Metric("rate", "events/s, model to readers, as fast as it can"),
        Metric("cpu", "CPU of an event of these, without model and readers, µs"),
        Metric("relay50", "event logs alone: published to reader elsewhere, p50 ms", 2),
        Metric("relay99", "event logs alone: published to reader elsewhere, p99 ms"),
        Metric("relay_rate", "event logs alone: events/s", 9000, at_least=True),
        Metric("relay_cpu", "event logs alone: CPU of an event, µs", 150),
        Metric("valkey_cpu", "the relay's part of it, µs"),
    ),
    _readers,
)
IDLE = Section(
    "idle",
    (
        Metric("readers", "idle readers of one process"),
        Metric("p50", "model's word to a reader among them, p50 ms"),
        Metric("p99", "model's word to a reader among them, p99 ms", 20),
        Metric("transactions", "transactions/s more than without them", 5),
        Metric("memory", "memory of an idle reader, KiB"),
        Metric("resident", "memory of the process without readers, MiB"),
        Metric("share", "CPU of the process with them, % of a core"),
    ),
    _idle,
)
