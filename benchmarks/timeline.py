"""The timeline of one run: what happens between its request and its stored receipts, and when.

The server, the client and the scripted model share this process, so that all times are of one clock; the
times are therefore longer than those of `first_event`, but their order and proportions are the same. Prints
when each step had happened, for the executor `messages` and for a CLI process that is ready. The fastest of
many rounds hardly depends on what else the machine does.

    .venv/bin/python -m benchmarks.timeline --rounds 20
"""

import argparse
import asyncio
import os
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from app.auth.keys import mint_key
from app.cli.addresses import listen, url_of
from app.cli.serve import served
from app.platform.settings import Settings
from app.simulator.script import Answer, ApiRequest, Reply, Text
from app.simulator.server import Simulator
from benchmarks.markdown import table
from benchmarks.variants import CLAUDE, MESSAGES, MODEL, PROMPT

STEPS = {
    "HASH api_keys": "authenticated: the API key was read",
    "INSERT runs": "everything was checked, and the run is stored with its place",
    "LOCK credit_accounts": "the reservation was adjusted to the request",
    "UPDATE runs": "the end and the events are stored",
    "INSERT charge_receipts": "the receipt is stored and debited",
}
"""What the statements of a run are for."""

COMMITTED = "committed"
_IS_OF_RUN = "is_of_run"

_PAUSE_S = 2.0
"""Between runs: another CLI process is started meanwhile."""

_TIMEOUT_S = 60.0


class TimelineStep(NamedTuple):
    """When something had happened, in seconds of the performance counter."""

    at: float
    name: str


class RunTimeline:
    """Records the steps of one run at a time."""

    def __init__(self) -> None:
        self.steps: list[TimelineStep] = []

    def add(self, name: str) -> None:
        """Something has happened now."""
        self.steps.append(TimelineStep(time.perf_counter(), name))

    def answer(self, _request: ApiRequest) -> Answer:
        """See `Responder`."""
        self.add("the request has arrived at the provider")
        return Reply([Text("A short answer of about ten words, written at once.")])

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record statements, commits, and prompts that are written to a CLI."""
        write = SubprocessCLITransport.write

        async def recorded(transport: SubprocessCLITransport, data: str) -> None:
            await write(transport, data)
            if '"type":"user"' in data:
                self.add("the prompt was handed to the CLI")

        listeners = (("after_cursor_execute", self._executed), ("commit", self._committed))
        for name, listener in listeners:
            event.listen(Engine, name, listener)
        SubprocessCLITransport.write = recorded  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            SubprocessCLITransport.write = write  # type: ignore[method-assign]
            for name, listener in listeners:
                event.remove(Engine, name, listener)

    def _executed(self, connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if (step := STEPS.get(_kind_of(statement))) is not None:
            self.add(step)
            connection.info[_IS_OF_RUN] = True

    def _committed(self, connection: Connection) -> None:
        # Those of periodic jobs are not of interest.
        if connection.info.pop(_IS_OF_RUN, False):
            self.add(COMMITTED)


def _kind_of(statement: str) -> str:
    if (change := re.search(r"(INSERT INTO|UPDATE) ([a-z_]+)", statement)) is not None:
        return f"{change[1].removesuffix(' INTO')} {change[2]}"
    lock = "LOCK" if re.search(r"FOR (SHARE|UPDATE)", statement) else "SELECT"
    if "api_keys.hash =" in statement:
        lock = "HASH"
    return f"{lock} {read[1]}" if (read := re.search(r"FROM ([a-z_]+)", statement)) else ""


async def _run(http: httpx.AsyncClient, graph: str, timeline: RunTimeline) -> list[tuple[str, float]]:
    """One run; returns what happened after how many milliseconds."""
    body = {"graphId": graph, "model": MODEL, "messages": [{"role": "user", "content": PROMPT}]}
    timeline.steps.clear()
    start, received, seen = time.perf_counter(), bytearray(), set[bytes]()
    async with http.stream("POST", "/v1/runs/stream", json=body) as response:
        async for chunk in response.aiter_raw():
            received += chunk
            for kind in (b"run_started", b"text_delta", b"done"):
                if kind not in seen and b"event: " + kind in received:
                    seen.add(kind)
                    timeline.add(f"the client has `{kind.decode()}`")
    return [(step.name, (step.at - start) * 1000) for step in sorted(timeline.steps)]


def _rows(runs: list[list[tuple[str, float]]]) -> list[tuple[str, str, str]]:
    """When each step had happened, in the runs with the most common order of steps."""
    order, _ = Counter(tuple(name for name, _ in run) for run in runs).most_common(1)[0]
    alike = [run for run in runs if tuple(name for name, _ in run) == order]
    times = [[run[index][1] for run in alike] for index in range(len(order))]
    return [
        (name, f"{min(each):.1f}", f"{statistics.median(each):.1f}")
        for name, each in zip(order, times, strict=True)
    ]


async def main(rounds: int) -> None:
    """Run and print."""
    timeline, key = RunTimeline(), mint_key()
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name, listen("127.0.0.1", 0) as sock:
        async with Simulator(timeline.answer) as simulator:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": name,
                "ANTHROPIC_API_KEY": "simulated",
                "ANTHROPIC_BASE_URL": simulator.url,
                "RUNTALLY_DATA_DIR": str(Path(name) / "data"),
                "RUNTALLY_IDLE_PROCESSES": "1",
                "RUNTALLY_BOOTSTRAP_KEY": key,
            }
            os.environ.clear()
            os.environ.update(environment)
            headers = {"Authorization": f"Bearer {key}"}
            async with (
                served(Settings(), sock),
                httpx.AsyncClient(base_url=url_of(sock), headers=headers, timeout=_TIMEOUT_S) as http,
            ):
                for graph in (MESSAGES, CLAUDE):
                    await _run(http, graph, timeline)
                    runs = []
                    with timeline.watching():
                        for _ in range(rounds):
                            await asyncio.sleep(_PAUSE_S if graph == CLAUDE else 0)
                            runs.append(await _run(http, graph, timeline))
                    print(f"\n`{graph}`, {rounds} runs one after the other, milliseconds after the request\n")
                    print(table(("", "fastest", "median"), _rows(runs)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    asyncio.run(main(parser.parse_args().rounds))
