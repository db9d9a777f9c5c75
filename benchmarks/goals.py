"""The goals of latency and throughput: measured, wanted, met.

Executes `first_event`, `throughput` and `live_runs`, prints their tables and then the goals. Goals are
ratios between variants that were measured in alternation, because no machine is as fast as another, and few
are as fast as an hour ago. Takes about ten minutes on a quiet machine with two cores.

    .venv/bin/python -m benchmarks.goals --into docs/BENCHMARKS.md
    .venv/bin/python -m benchmarks.goals --rounds 3 --runs 8 --live 50
"""

import argparse
import asyncio
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import first_event, live_runs, throughput
from benchmarks.first_event import Latency
from benchmarks.live_runs import LiveRuns
from benchmarks.markdown import table
from benchmarks.throughput import Throughput

FEW, MANY = 4, 16
"""Runs at a time."""

MARK = "<!-- printed by benchmarks.goals -->"


@dataclass(frozen=True, slots=True)
class Measured:
    """What the programs have measured."""

    latency: dict[str, Latency]
    few: dict[str, Throughput]
    many: dict[str, Throughput]
    live: LiveRuns

    def first_text(self, name: str, against: str) -> float:
        """The ratio of two variants' times to the first text."""
        return self.latency[name].first / self.latency[against].first

    def rate(self, name: str) -> float:
        """The ratio of a variant's runs per second to that of `query()`, four at a time."""
        return self.few[name].rate / self.few[first_event.QUERY].rate

    @property
    def messages_rate(self) -> float:
        """The same of `messages`, with whichever number of runs at a time it is best."""
        name = first_event.MESSAGES_ALONE
        best = max(self.few[name].rate, self.many[name].rate, self.live.rate)
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
            0.15,
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
        Goal("`messages`: MiB of a live run", measured.live.mib, 1),
        Goal("`messages`: failed runs of those", len(measured.live.failed), 0),
        Goal("`messages`: messages without a correct receipt", len(measured.live.wrong), 0),
    ]


async def measure(directory: Path, *, rounds: int, runs: int, live: int) -> tuple[Measured, list[str]]:
    """Execute the programs; also returns their reports, each of which is printed at once."""
    reports: list[str] = []
    latency = await first_event.measure(directory / "first_event", rounds)
    _add(reports, f"One at a time, medians of {rounds} interleaved rounds", first_event.report(latency))
    of_few, by_number = max(1, rounds // 4), []
    for number in (FEW, MANY):
        measured = await throughput.measure(directory / f"{number}", rounds=of_few, runs=runs, at_once=number)
        title = f"{number} at a time, medians of {of_few} interleaved rounds of {runs} runs or more"
        _add(reports, title, throughput.report(measured))
        by_number.append(measured)
    found = await live_runs.measure(directory / "live", live)
    _add(reports, f"{live} at a time", live_runs.report(found))
    few, many = by_number
    return Measured(latency, few, many, found), reports


def _add(reports: list[str], title: str, report: str) -> None:
    reports.append(f"### {title}\n\n{report}")
    print(reports[-1], end="\n\n", flush=True)


def write_into(document: Path, results: str) -> None:
    """Replace what the document shows of an earlier measurement."""
    before, mark, _ = document.read_text("utf-8").partition(MARK)
    if not mark:
        message = f"{document} has no line {MARK}"
        raise ValueError(message)
    document.write_text(f"{before}{mark}\n\n{results}\n", "utf-8")


async def main(*, rounds: int, runs: int, live: int, into: Path | None) -> None:
    """Execute and print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        measured, reports = await measure(Path(name), rounds=rounds, runs=runs, live=live)
    rows = [goal.row() for goal in goals(measured)]
    when = f"On {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d}."
    summary = f"{when}\n\n{table(('', 'measured', 'goal', 'met'), rows)}"
    print(summary)
    if into is not None:
        write_into(into, "\n\n".join([summary, *reports]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="of latency; a quarter of them of throughput")
    parser.add_argument(
        "--runs", type=int, default=32, help="in a round of throughput (default: %(default)s)"
    )
    parser.add_argument("--live", type=int, default=500, help="runs at the same time (default: %(default)s)")
    parser.add_argument("--into", type=Path, help="a document that shows the results: docs/BENCHMARKS.md")
    given = parser.parse_args()
    asyncio.run(main(rounds=given.rounds, runs=given.runs, live=given.live, into=given.into))
