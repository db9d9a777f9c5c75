"""Runtally, the SDK, the official client and other people's servers on the same work, in one table.

Executes `first_event`, `throughput` and `live_runs`: one at a time for the first text, four at a time for the
rest; then `run_cost` and `starts`. Then it compares with the goals. All take turns, because no machine is as
fast as another, and few are as fast as an hour ago: compare ratios. The load of the machine is printed, since
what else it does makes all numbers worse.

    .venv/bin/python -m benchmarks.goals --into docs/BENCHMARKS.md
    .venv/bin/python -m benchmarks.goals --rounds 4 --runs 8 --live 50
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import first_event, live_runs, run_cost, starts, throughput
from benchmarks.first_event import Latency
from benchmarks.live_runs import LiveRuns
from benchmarks.markdown import table
from benchmarks.peers import PEERS
from benchmarks.run_cost import Cost
from benchmarks.throughput import Throughput

FEW = 4
"""Runs at a time."""

NOT_MEASURED = "-"

MARK = "<!-- printed by benchmarks.goals -->"


@dataclass(frozen=True, slots=True)
class Measured:
    """What the programs have measured."""

    latency: dict[str, Latency]
    few: dict[str, Throughput]
    live: LiveRuns
    costs: Sequence[Cost]
    """Of a run of `messages` with few tools, and with many."""
    starts_s: Sequence[float]

    def first_text(self, name: str, against: str) -> float:
        """The ratio of two variants' times to the first text."""
        return self.latency[name].first / self.latency[against].first

    def rate(self, name: str) -> float:
        """The ratio of a variant's runs per second to that of `query()`, four at a time."""
        return self.few[name].rate / self.few[first_event.QUERY].rate

    @property
    def messages_rate(self) -> float:
        """The same of `messages`, with whichever number of runs at a time it is best."""
        best = max(self.few[first_event.MESSAGES_ALONE].rate, self.live.rate)
        return best / self.few[first_event.QUERY].rate

    @property
    def cold_cpu(self) -> float:
        """The ratio of the CPU time of a run that starts a process to that of `query()`."""
        return self.few[first_event.COLD].cpu_ms / self.few[first_event.QUERY].cpu_ms


@dataclass(frozen=True, slots=True)
class Goal:
    """A number, and its bound."""

    name: str
    measured: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the bound is kept."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def row(self) -> tuple[str, str, str, str]:
        """A row of the table."""
        bound = f"{'≥' if self.at_least else '≤'} {self.bound:g}"
        return self.name, f"{self.measured:.2f}", bound, "yes" if self.met else "no"


def goals(measured: Measured) -> list[Goal]:
    """Every goal."""
    query, stream = first_event.QUERY, first_event.STREAM
    return [
        Goal(
            "next turn, parked process: first text / query()",
            measured.first_text(first_event.PARKED, query),
            0.12,
        ),
        Goal(
            "next turn, resumed from the store: first text / query()",
            measured.first_text(first_event.RESUMED, query),
            1.05,
        ),
        Goal(
            "alone, ready process: first text / query()", measured.first_text(first_event.READY, query), 0.25
        ),
        Goal(
            f"alone, {FEW} at a time: runs/s / query()", measured.rate(first_event.READY), 1.0, at_least=True
        ),
        Goal(
            f"conversations, {FEW} at a time: runs/s / query()",
            measured.rate(first_event.PARKED),
            4,
            at_least=True,
        ),
        Goal("a cold run: CPU / query()", measured.cold_cpu, 1.1),
        Goal(
            "`messages`: first text / `anthropic` stream",
            measured.first_text(first_event.MESSAGES_ALONE, stream),
            3,
        ),
        Goal(f"`messages`: runs/s / query(), {FEW} at a time", measured.messages_rate, 25, at_least=True),
        Goal(
            f"`messages`, two processes: runs/s / query(), {FEW} at a time",
            measured.rate(first_event.MESSAGES_TWO),
            30,
            at_least=True,
        ),
        *_goals_of_costs(*measured.costs),
        Goal("`messages`: MiB of a live run", measured.live.mib, 1),
        Goal("`messages`: failed runs of those", len(measured.live.failed), 0),
        Goal("`messages`: messages without a correct receipt", len(measured.live.wrong), 0),
        Goal("start of `runtally serve` until it is ready, s", statistics.median(measured.starts_s), 2),
    ]


def _goals_of_costs(few: Cost, many: Cost) -> list[Goal]:
    python, postgres, of_many = map(statistics.median, (few.python_ms, few.postgres_ms, many.python_ms))
    return [
        Goal("`messages`: CPU of a run, ms of the server", python, 8.5),
        Goal("`messages`: CPU of a run, ms of PostgreSQL", postgres, 3),
        Goal(
            "`messages`: CPU of a run with 30 tools in place of 2, ms more of the server", of_many - python, 1
        ),
    ]


async def measure(directory: Path, *, rounds: int, runs: int, live: int) -> Measured:
    """Execute the programs."""
    latency = await first_event.measure(directory / "first_event", rounds)
    few = await throughput.measure(directory / "few", rounds=max(3, rounds // 4), runs=runs, at_once=FEW)
    lives = await live_runs.measure(directory / "live", live)
    costs = await run_cost.measure(directory / "cost", [Path()], "messages", rounds=5, runs=100)
    return Measured(latency, few, lives, [*costs.values()], await starts.measure(directory / "starts", 5))


def report(measured: Measured) -> str:
    """One row for each variant: medians, and in brackets the least and the most of all rounds."""
    header = ("", "first text, ms", "/ `query()`", "runs/s", "CPU of a run, ms", "memory of a run, MiB")
    rows = [
        (
            name,
            _spread(latency.first_ms),
            f"{measured.first_text(name, first_event.QUERY):.2f}",
            *_of_many(measured.few.get(name)),
        )
        for name, latency in measured.latency.items()
    ]
    absent = [
        (f"{name}: could not be started", *[NOT_MEASURED] * 5)
        for name in PEERS
        if name not in measured.latency
    ]
    return table(header, [*rows, *absent])


def _of_many(found: Throughput | None) -> tuple[str, str, str]:
    if found is None:
        return NOT_MEASURED, NOT_MEASURED, NOT_MEASURED
    return _spread(found.rates), _spread(found.cpus_ms), f"{found.memory_mib:.1f}"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def write_into(document: Path, results: str) -> None:
    """Replace what the document shows of an earlier measurement."""
    before, mark, _ = document.read_text("utf-8").partition(MARK)
    if not mark:
        message = f"{document} has no line {MARK}"
        raise ValueError(message)
    document.write_text(f"{before}{mark}\n\n{results}\n", "utf-8")


async def main(*, rounds: int, runs: int, live: int, into: Path | None) -> None:
    """Execute and print."""
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        measured = await measure(Path(name), rounds=rounds, runs=runs, live=live)
    loads.append(os.getloadavg()[0])
    when = f"On {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d}; the load of the machine was"
    summary = "\n\n".join(
        (
            f"{when} {loads[0]:.1f} before and {loads[1]:.1f} at the end.",
            report(measured),
            f"First text: one at a time, {rounds} rounds; the rest: {FEW} at once. Medians (least to most).",
            table(("", "measured", "goal", "met"), [goal.row() for goal in goals(measured)]),
            f"### {live} at a time\n\n{live_runs.report(measured.live)}",
        )
    )
    print(summary)
    if into is not None:
        write_into(into, summary)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12, help="of latency; a quarter of them of throughput")
    parser.add_argument(
        "--runs", type=int, default=16, help="in a round of throughput (default: %(default)s)"
    )
    parser.add_argument("--live", type=int, default=200, help="runs at the same time (default: %(default)s)")
    parser.add_argument("--into", type=Path, help="a document that shows the results: docs/BENCHMARKS.md")
    given = parser.parse_args()
    asyncio.run(main(rounds=given.rounds, runs=given.runs, live=given.live, into=given.into))
