"""Many runs of `messages` that are all live at the same time: latency, memory, receipts.

All are posted at once, each by a client of its own. The model begins every answer at once and goes on when
all have begun. Prints the time to the first text (p50, p99), the memory that a live run adds to the server
with its PostgreSQL (proportional shares of shared pages) and to the server's process alone (resident), and
the runs per second of as many runs whose model does not wait. Every message must have one receipt with the
numbers that the model sent, or the exit code is 1.

    .venv/bin/python -m benchmarks.live_runs --runs 500
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks.processes import MIB, ProcessTree
from benchmarks.scripted_model import WAIT, scripted_model
from benchmarks.servers import UNLIMITED, receipts, running_server
from benchmarks.throughput import rate
from benchmarks.variants import MESSAGES, PROMPT, Run, RunFailed, Times, alone, posted

WARM_UP = 8
SHOWN = 10


@dataclass(frozen=True, slots=True)
class LiveRuns:
    """What was measured."""

    first_ms: list[float]
    mib: float
    """What a live run adds to server and PostgreSQL."""
    resident_mib: float
    """What it adds to the server's process."""
    rate: float
    failed: list[str]
    """Why runs failed."""
    wrong: list[str]
    """Messages whose receipt differs or is missing, and the reverse."""

    def percentile(self, percent: int) -> float:
        """The milliseconds within which so many percent had their first text; infinite if most failed."""
        if len(self.first_ms) < 2:  # noqa: PLR2004
            return float("inf")
        return statistics.quantiles(self.first_ms, n=100, method="inclusive")[percent - 1]


async def measure(directory: Path, runs: int) -> LiveRuns:
    """So many at the same time."""
    settings = {**UNLIMITED, "RUNTALLY_MAX_CONCURRENT_RUNS": str(runs)}
    async with (
        scripted_model() as model,
        running_server(model.url, directory, idle=0, **settings) as (http, server),
    ):
        tree = ProcessTree(server)
        await rate(alone(http, MESSAGES), WARM_UP, at_once=WARM_UP)
        await tree.until_quiet()
        before_mib, before = tree.memory_mib(), server.memory_info().rss
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            live = [_LiveRun() for _ in range(runs)]
            for run in live:
                tasks.create_task(run.execute(http))
            for run in live:
                await run.started.wait()
            added_mib = (tree.memory_mib() - before_mib) / runs
            resident_mib = (server.memory_info().rss - before) / runs / MIB
            await model.release()
        late: list[str] = []
        per_s = await rate(_counted(alone(http, MESSAGES), late), 2 * runs, at_once=runs)
        per_s *= 1 - len(late) / (2 * runs)
        wrong = sorted({name for name, _ in (await model.sent()).items() ^ (await receipts(http)).items()})
    first_ms = [(run.first - began) * 1000 for run in live if not run.failure]
    failed = [*(run.failure for run in live if run.failure), *late]
    return LiveRuns(first_ms, added_mib, resident_mib, per_s, failed, wrong)


def _counted(run: Run, failures: list[str]) -> Run:
    """The same, which notes why it failed instead of raising."""

    async def counted(place: int) -> Times:
        try:
            return await run(place)
        except (RunFailed, httpx.HTTPError) as error:
            failures.append(repr(error))
            return Times(0.0, 0.0)

    return counted


@dataclass(slots=True)
class _LiveRun:
    started: asyncio.Event = field(default_factory=asyncio.Event)
    first: float = 0.0
    failure: str = ""

    async def execute(self, http: httpx.AsyncClient) -> None:
        try:
            times = await posted(http, MESSAGES, prompt=f"{PROMPT} {WAIT}", started=self.started)
            self.first = times.first
        except (RunFailed, httpx.HTTPError) as error:
            self.failure = repr(error)
            self.started.set()


def report(measured: LiveRuns) -> str:
    """What was measured, in words."""
    lines = [
        "Runs of `messages` that are all live at the same time:",
        "",
        f"* first text: p50 {measured.percentile(50):.0f} ms, p99 {measured.percentile(99):.0f} ms",
        f"* memory of a live run: {measured.mib:.2f} MiB, {measured.resident_mib:.2f} of the server process",
        f"* runs/s: {measured.rate:.0f}",
        f"* runs that failed: {len(measured.failed)}",
        f"* messages without a correct receipt, or the reverse: {len(measured.wrong)}",
    ]
    failures = [f"{count} x {failure}" for failure, count in Counter(measured.failed).most_common(SHOWN)]
    return "\n".join([*lines, *(f"  * {what}" for what in [*failures, *measured.wrong[:SHOWN]])])


async def main(runs: int) -> int:
    """Run and print; 1 if a run failed or a receipt is wrong."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        measured = await measure(Path(name), runs)
    print(report(measured))
    return 1 if measured.failed or measured.wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=500)
    sys.exit(asyncio.run(main(parser.parse_args().runs)))
