"""What a run of `messages` costs in CPU time: of the server's process, and of PostgreSQL and CLIs.

One turn that ends with text, with `--parked` the next turn of a conversation whose CLI waits for it, with
`--external` a streamed message of a client's own agent; with 2 and with 30 tools, none of which is called.
Not the clock: what else the machine does changes that, and this much less. Releases are directories with a
checkout; each has a server of its own, and all take turns, so that their ratios hold on any machine.

    .venv/bin/python -m benchmarks.run_cost --releases . ../before
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from benchmarks.markdown import table
from benchmarks.processes import ProcessTree
from benchmarks.scripted_model import scripted_model
from benchmarks.servers import UNLIMITED, running_server
from benchmarks.throughput import rate
from benchmarks.variants import Run, alone, called, next_turn

TOOLS = (2, 30)
_AT_ONCE = {"messages": 16, "claude_agents": 2, "external": 16}
"""How many runs at a time, by executor."""

_TOOLS_FILE = '''
from pydantic import BaseModel, Field
from runtally import ToolContext, tool


def made(number):
    class Arguments(BaseModel):
        """Where and when."""

        city: str = Field(description="The city to look up, in English.", max_length=100)
        days: int = Field(3, ge=1, le=14, description="How many days.")
        units: str | None = Field(None, description="Units of the answer.")

    @tool(id=f"cost__tool_{number}", description=f"Looks up number {number} of a city.", effect="read_only")
    async def looked_up(args: Arguments, context: ToolContext) -> str:
        return "ok"

    return looked_up


globals().update({f"tool_{number}": made(number) for number in range(%d)})
'''


@dataclass(slots=True)
class Cost:
    """What the runs of one graph cost on one server, in milliseconds of each round's runs."""

    run: Run
    server: psutil.Process
    at_once: int
    python_ms: list[float] = field(default_factory=list)
    postgres_ms: list[float] = field(default_factory=list)

    async def measure(self, runs: int) -> None:
        """One round."""
        before = self._used_s()
        await rate(self.run, runs, at_once=self.at_once)
        python, postgres = (after - used for after, used in zip(self._used_s(), before, strict=True))
        self.python_ms.append(python / runs * 1000)
        self.postgres_ms.append(postgres / runs * 1000)

    def _used_s(self) -> tuple[float, float]:
        times, tree = self.server.cpu_times(), ProcessTree(self.server)
        own = times.user + times.system
        return own, tree.cpu_s() - own


def _write_graphs(directory: Path) -> dict[str, str]:
    """The settings of a server with the graphs."""
    graphs = directory / "graphs"
    graphs.mkdir(parents=True)
    (directory / "cost_tools.py").write_text(_TOOLS_FILE % max(TOOLS), "utf-8")
    for count in TOOLS:
        names = "".join(f"  - cost__tool_{number}\n" for number in range(count))
        head = f"description: With {count} tools.\ntools:\n{names}"
        (graphs / f"cost{count}.md").write_text(f"---\n{head}---\nYou are a helpful assistant.\n", "utf-8")
    return {"RUNTALLY_GRAPHS_DIR": str(graphs), "RUNTALLY_TOOLS": "cost_tools"}


async def measure(
    directory: Path, releases: Sequence[Path], executor: str, *, rounds: int, runs: int
) -> dict[tuple[Path, int], Cost]:
    """The costs by release and number of tools."""
    settings = {**UNLIMITED, **_write_graphs(directory), "RUNTALLY_MAX_CONCURRENT_RUNS": "64"}
    at_once, costs = _AT_ONCE[executor], dict[tuple[Path, int], Cost]()
    idle = 4 * len(TOOLS) * at_once if executor == "claude_agents" else 0
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(scripted_model())
        for number, release in enumerate(releases):
            # The release instead of the directory in which this program was started.
            found = {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{release.resolve()}:{directory}"}
            server = running_server(model.url, directory / str(number), idle=idle, **found, **settings)
            http, process = await stack.enter_async_context(server)
            for count in TOOLS:
                cost = Cost(_run_of(http, executor, count), process, at_once)
                await rate(cost.run, 2 * at_once, at_once=at_once)
                costs[release, count] = cost
        for _ in range(rounds):
            await model.forget()
            for cost in costs.values():
                await cost.measure(runs)
    return costs


def _run_of(http: httpx.AsyncClient, executor: str, tools: int) -> Run:
    if executor == "external":
        return called(http, tools)
    return (alone if executor == "messages" else next_turn)(http, f"{executor}:cost{tools}")


def report(costs: dict[tuple[Path, int], Cost]) -> str:
    """The medians, and the ratios to the first release, round by round."""
    first = next(iter(costs))[0]
    header = ("", "tools", "Python, ms", "/ first", "others, ms", "/ first")
    rows = []
    for (release, count), cost in costs.items():
        base = costs[first, count]
        measured = ((cost.python_ms, base.python_ms), (cost.postgres_ms, base.postgres_ms))
        cells = [cell for own, others in measured for cell in _cells(own, others)]
        rows.append((release.resolve().name, str(count), *cells))
    return table(header, rows)


def _cells(own: Sequence[float], others: Sequence[float]) -> tuple[str, str]:
    ratio = statistics.median(one / other for one, other in zip(own, others, strict=True))
    return f"{statistics.median(own):.1f}", f"{ratio:.2f}"


async def main(releases: Sequence[Path], executor: str, *, rounds: int, runs: int) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        costs = await measure(Path(name), releases, executor, rounds=rounds, runs=runs)
    print(
        f"{executor}: {_AT_ONCE[executor]} runs at a time, {rounds} interleaved rounds of {runs}; medians\n"
    )
    print(report(costs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--releases", type=Path, nargs="+", default=[Path()], help="(default: this one)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--runs", type=int, default=100, help="in a round (default: %(default)s)")
    what = parser.add_mutually_exclusive_group()
    for name, executor in (("--parked", "claude_agents"), ("--external", "external")):
        what.add_argument(name, dest="executor", action="store_const", const=executor, default="messages")
    given = parser.parse_args()
    asyncio.run(main(given.releases, given.executor, rounds=given.rounds, runs=given.runs))
