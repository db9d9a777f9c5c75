"""Time to the first text: a run posted to Runtally compared with the SDK's own `query()`.

All variants use the same scripted model on this machine, one after the other in each round, so that other
load affects all alike: the SDK, a server without a warm pool, and one with it, which gets a pause
between rounds to start the next process, as while a real provider thinks. Prints medians, their
ratios, and what the server process itself (without the CLI, which all need) used per run in CPU time and
memory.

    .venv/bin/python -m benchmarks.first_event --rounds 20
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import httpx_sse
import psutil
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, StreamEvent, query

from app.auth.keys import mint_key
from app.simulator.demo import DemoModel
from app.simulator.server import Simulator

REFILL_S = 1.0
"""Pause between rounds in which the pool refills."""

PROMPT = "Say something short."
MODEL = "claude-sonnet-5-5"
READY_S = 30.0


@dataclass(slots=True)
class Timings:
    """Milliseconds from the request to the first text and to the end, one entry per round."""

    first_ms: list[float] = field(default_factory=list)
    end_ms: list[float] = field(default_factory=list)

    def add(self, start: float, first: float, end: float) -> None:
        """Record one round, given in seconds of the performance counter."""
        self.first_ms.append((first - start) * 1000)
        self.end_ms.append((end - start) * 1000)


async def direct(base_url: str, directory: Path) -> tuple[float, float]:
    """One run by `query()`; returns when the first text and the end arrived.

    The options are the fastest a careful user would choose: the same ones Runtally uses, but with
    the environment that the SDK passes by default.
    """
    options = ClaudeAgentOptions(
        model=MODEL,
        system_prompt="You are a helpful assistant.",
        tools=[],
        setting_sources=[],
        strict_mcp_config=True,
        permission_mode="dontAsk",
        thinking={"type": "disabled"},
        include_partial_messages=True,
        extra_args={"bare": None},
        cwd=directory,
        env={
            "ANTHROPIC_API_KEY": "simulated",
            "ANTHROPIC_BASE_URL": base_url,
            "CLAUDE_CONFIG_DIR": str(directory / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )
    first = end = 0.0
    async for message in query(prompt=PROMPT, options=options):
        if not first and isinstance(message, StreamEvent) and "text" in message.event.get("delta", {}):
            first = time.perf_counter()
        if isinstance(message, ResultMessage):
            end = time.perf_counter()
    return first, end


async def posted(http: httpx.AsyncClient) -> tuple[float, float]:
    """One run through the server; returns when the first text and the end arrived."""
    body = {"graphId": "claude_agents:summarizer", "messages": [{"role": "user", "content": PROMPT}]}
    first = end = 0.0
    connection = httpx_sse.aconnect_sse(http, "POST", "/v1/runs/stream", json={**body, "model": MODEL})
    async with connection as source:
        async for event in source.aiter_sse():
            if not first and event.event == "text_delta":
                first = time.perf_counter()
            if event.event == "done":
                end = time.perf_counter()
    return first, end


@asynccontextmanager
async def running_server(
    base_url: str, directory: Path, *, warm: int, **settings: str
) -> AsyncIterator[tuple[httpx.AsyncClient, psutil.Process]]:
    """Runtally in a separate process; yields a client and the process."""
    key = mint_key()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "ANTHROPIC_API_KEY": "simulated",
        "ANTHROPIC_BASE_URL": base_url,
        "RUNTALLY_DATA_DIR": str(directory / f"data-{warm}"),
        "RUNTALLY_WARM_POOL": str(warm),
        "RUNTALLY_BOOTSTRAP_KEY": key,
        **settings,
    }
    port = _free_port()
    command = [sys.executable, "-m", "app", "serve", "--port", str(port)]
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        url = f"http://127.0.0.1:{port}"
        await _until_ready(url)
        async with _client(url, key) as http:
            yield http, psutil.Process(server.pid)
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _until_ready(url: str) -> None:
    async with asyncio.timeout(READY_S), httpx.AsyncClient() as http:
        while True:
            try:
                if (await http.get(f"{url}/readyz")).is_success:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


async def main(rounds: int) -> None:
    """Run and print."""
    sdk_timings, cold_timings, warm_timings = Timings(), Timings(), Timings()
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        directory = Path(name)
        async with (
            Simulator(DemoModel(word_delay_s=0)) as simulator,
            running_server(simulator.url, directory, warm=0) as (cold, server),
            running_server(simulator.url, directory, warm=1) as (warm, _),
        ):
            await posted(cold)
            await posted(warm)
            await direct(simulator.url, directory)
            before = _cost(server)
            for _ in range(rounds):
                start = time.perf_counter()
                sdk_timings.add(start, *await direct(simulator.url, directory))
                start = time.perf_counter()
                cold_timings.add(start, *await posted(cold))
                await asyncio.sleep(REFILL_S)
                start = time.perf_counter()
                warm_timings.add(start, *await posted(warm))
            after = _cost(server)
    added = [b - a for a, b in zip(before, after, strict=True)]
    _print(rounds, sdk_timings, {"Runtally": cold_timings, "with a warm pool": warm_timings}, added)


def _client(url: str, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
    )


def _cost(server: psutil.Process) -> tuple[float, float]:
    """CPU seconds used so far and resident MiB of the server process alone."""
    times = server.cpu_times()
    return times.user + times.system, server.memory_info().rss / 2**20


def _print(rounds: int, sdk: Timings, servers: dict[str, Timings], added: list[float]) -> None:
    print(f"{rounds} rounds, interleaved; medians in ms, and their ratio to query()")
    print(f"{'':14}{'query()':>10}" + "".join(f"{name:>26}" for name in servers))
    for name, title in (("first_ms", "first text"), ("end_ms", "end")):
        theirs = statistics.median(getattr(sdk, name))
        line = f"{title:14}{theirs:10.0f}"
        for timings in servers.values():
            ours = statistics.median(getattr(timings, name))
            line += f"{ours:18.0f}{ours / theirs:8.2f}"
        print(line)
    cpu_s, memory_mib = added
    print(f"server process, per run: {cpu_s / rounds * 1000:.1f} ms CPU, {memory_mib / rounds:.2f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    asyncio.run(main(parser.parse_args().rounds))
