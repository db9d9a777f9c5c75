"""What telemetry costs: the CPU of runs on a server that exports, compared with one that does not.

Two servers with databases of their own take turns, some runs at a time, so that both meet the same machine.
The receiver answers at once. CPU is that of the server and of everything it has started: PostgreSQL, and the
CLI of each run. A run has two messages of the model and a tool call.

On a machine that does other work as well, the times of both servers differ by more than telemetry costs.
So its own work is measured by itself, too, in this process: `traced_run`.

    .venv/bin/python -m benchmarks.telemetry --blocks 10
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from app.simulator.script import Answer, ApiRequest, Reply, Text, ToolUse
from app.simulator.server import Simulator
from benchmarks.markdown import table
from benchmarks.processes import ProcessTree
from benchmarks.servers import UNLIMITED, running_server
from benchmarks.traced_run import cpu_ms_of_a_run

GOAL = 1.02
RUNS: Mapping[str, int] = {"claude_agents:assistant": 6, "messages:assistant": 100}
"""How many runs of a graph are measured at once: the system counts CPU in steps of 10 ms."""

_EXPORTING = {"OTEL_BSP_SCHEDULE_DELAY": "1000"}
"""More often than usual, so that what a block exports is measured with it."""


@dataclass(slots=True)
class Server:
    """A server, and the CPU of its runs in milliseconds, by graph."""

    http: httpx.AsyncClient
    tree: ProcessTree
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)

    async def measure(self, graph: str) -> None:
        """Some runs of a graph, one after the other."""
        body = {"graphId": graph, "messages": [{"role": "user", "content": "What time is it?"}]}
        await self.tree.until_quiet()
        before = self.tree.cpu_s()
        for _ in range(RUNS[graph]):
            response = await self.http.post("/v1/runs/wait", json=body)
            if not response.raise_for_status().json()["ok"]:
                raise RuntimeError(response.text)
        # What is exported, stored and tidied up afterwards counts, too.
        await self.tree.until_quiet()
        used = self.tree.cpu_s() - before
        self.cpu_ms.setdefault(graph, []).append(used * 1000 / RUNS[graph])


class Receiver:
    """Answers every export."""

    def __init__(self) -> None:
        self.received_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["path"] == "/v1/traces":
            self.received_bytes += len(await read_body(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def looks_at_the_clock(request: ApiRequest) -> Answer:
    """Calls the only tool, and answers."""
    if len(request.messages) == 1:
        return Reply([ToolUse(next(name for name in request.tool_names if "get_current_time" in name))])
    return Reply([Text("A short answer of about ten words, written at once.")])


async def main(blocks: int) -> None:
    """Run and print."""
    receiver = Receiver()
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = await stack.enter_async_context(Simulator(looks_at_the_clock))
        otlp = await stack.enter_async_context(serve_on_loopback(receiver))
        exporting = {"OTEL_EXPORTER_OTLP_ENDPOINT": otlp, **_EXPORTING}
        servers = []
        for name, settings in (("off", {}), ("on", exporting)):
            opened = running_server(model.url, directory / name, idle=0, **UNLIMITED, **settings)
            http, process = await stack.enter_async_context(opened)
            servers.append(Server(http, ProcessTree(process)))
        for block in range(blocks + 1):
            for server in servers if block % 2 else reversed(servers):
                for graph in RUNS:
                    await server.measure(graph)
    own = cpu_ms_of_a_run()
    print(_results(*servers, own=own))
    print(f"\nThe spans and metrics of a run, made and encoded: {own:.2f} ms of CPU.")
    if not receiver.received_bytes:
        message = "nothing was exported"
        raise RuntimeError(message)


def _results(off: Server, on: Server, *, own: float) -> str:
    rows = []
    for graph in RUNS:
        # Not the first, which also loads and connects.
        pairs = list(zip(off.cpu_ms[graph][1:], on.cpu_ms[graph][1:], strict=True))
        without, with_, ratio = (
            statistics.median(values)
            for values in zip(*((before, after, after / before) for before, after in pairs), strict=True)
        )
        expected = 1 + own / without
        met = "yes" if expected <= GOAL else "no"
        ratios = (f"{ratio:.3f}", f"{expected:.3f}")
        rows.append((graph, f"{without:.1f}", f"{with_:.1f}", *ratios, f"≤ {GOAL}", met))
    header = ("CPU of a run, in ms", "off", "on", "on / off", "own work", "goal", "met")
    return table(header, rows)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--blocks", type=int, default=10)
    asyncio.run(main(arguments.parse_args().blocks))
