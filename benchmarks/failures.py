"""How long a run takes to fail, for each failure of a provider or CLI, with the real CLI.

Prints the client's error and the seconds until it arrived. A stalled body takes minutes.

    .venv/bin/python -m benchmarks.failures
"""

import argparse
import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import structlog

from app.auth.keys import mint_key
from app.cli.addresses import listen, url_of
from app.cli.serve import served
from app.executors.claude_agent.process.cli import Cli
from app.platform.settings import Settings
from app.simulator.script import Hold, HttpError, Reply, Responder, Text
from app.simulator.server import Simulator

TIMEOUT_S = 600
MORE_THAN_A_LINE = 65 * 1024 * 1024
"""Bytes; one line of the CLI's output may have 64 MiB."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One kind of failure."""

    name: str
    model: Callable[[], Responder]
    cli: Cli | None = None
    unreachable: bool = False
    kills: bool = False
    """Whether the CLI is killed after its first call of the model."""


def _always(answer: Reply | HttpError) -> Callable[[], Responder]:
    return lambda: lambda _request: answer


FAILURES = (
    *(Failure(f"HTTP {status}", _always(HttpError(status))) for status in (400, 401, 402, 403, 404, 413)),
    Failure("HTTP 429, retry-after: 2", _always(HttpError(429, headers={"retry-after": "2"}))),
    *(Failure(f"HTTP {status}", _always(HttpError(status))) for status in (429, 500, 529)),
    Failure("connection refused", _always(Reply()), unreachable=True),
    Failure("stream cut at its start", _always(Reply([Text("one two")], cut_after=2))),
    Failure("body that stalls", lambda: lambda _: Reply([Text("one two three")], hold=Hold(index=4))),
    Failure("no CLI", _always(Reply()), cli=Cli(Path("/no/such/claude"))),
    Failure("CLI killed", lambda: lambda _: Reply([Text("one two")], hold=Hold(index=4)), kills=True),
    Failure("a line of 65 MiB", _always(Reply([Text("x" * MORE_THAN_A_LINE)]))),
)


async def main(names: list[str]) -> None:
    """Provoke each failure and print a line for it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(f"{'what happens':28}{'error':24}{'seconds':>8}")
    for failure in FAILURES:
        if not names or any(name in failure.name for name in names):
            error, seconds = await _happens(failure)
            print(f"{failure.name:28}{error:24}{seconds:8.1f}", flush=True)


async def _happens(failure: Failure) -> tuple[str, float]:
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        async with _server(failure, Path(name)) as http:
            started = time.perf_counter()
            body = {
                "graphId": "claude_agents:summarizer",
                "messages": [{"role": "user", "content": "hello"}],
            }
            waiting = asyncio.create_task(http.post("/v1/runs/wait", json=body))
            if failure.kills:
                await asyncio.sleep(2)
                started = time.perf_counter()
                for child in psutil.Process().children(recursive=True):
                    if "claude" in child.name():
                        child.kill()
            final = (await waiting).raise_for_status().json()
            return str(final["error"]), time.perf_counter() - started


@asynccontextmanager
async def _server(failure: Failure, directory: Path) -> AsyncIterator[httpx.AsyncClient]:
    key = mint_key()
    async with AsyncExitStack() as stack:
        simulator = await stack.enter_async_context(Simulator(failure.model()))
        values: dict[str, object] = {
            "DATABASE_URL": None,
            "REDIS_URL": None,
            "RUNTALLY_DATA_DIR": directory / "data",
            "ANTHROPIC_API_KEY": "simulated",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9" if failure.unreachable else simulator.url,
            "RUNTALLY_BOOTSTRAP_KEY": key,
            "RUNTALLY_IDLE_PROCESSES": 0,
        }
        settings = Settings.load(_env_file=None, **values)
        sock = stack.enter_context(listen("127.0.0.1", 0))
        await stack.enter_async_context(served(settings, sock, cli=failure.cli))
        headers = {"Authorization": f"Bearer {key}"}
        client = httpx.AsyncClient(base_url=url_of(sock), headers=headers, timeout=TIMEOUT_S, trust_env=False)
        yield await stack.enter_async_context(client)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only those with one of these in their names")
    asyncio.run(main(parser.parse_args().names))
