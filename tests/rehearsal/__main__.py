"""Rehearse new releases: `python -m tests.rehearsal claude-agent-sdk==0.2.190 [anthropic==2.15.0 ...]`.

Builds an environment with these versions, and all others from the lock; collects what our code depends on,
here and there, and prints what differs; then runs the contract suite there. Exits with 1 if a test fails.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.rehearsal.comparison import Difference, differences
from tests.rehearsal.environment import ROOT, build
from tests.rehearsal.facts import Fact, loads
from tests.rehearsal.suite import CONTRACTS, run

DIRECTORY = ROOT / ".rehearsal"
"""The environment stays there, to look into; the next rehearsal replaces it."""
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w)")


def facts_of(python: str | Path, into: Path) -> list[Fact]:
    """The facts of the environment with this Python."""
    subprocess.run([python, "-m", "tests.rehearsal.collecting", into], cwd=ROOT, check=True)
    return loads(into.read_text("utf-8"))


def show(found: Sequence[Difference], console: Console) -> None:
    """Print the table, a section for each topic."""
    if not found:
        console.print("Nothing that our code depends on differs.")
        return
    table = Table(title=f"{len(found)} differences", title_justify="left", box=SIMPLE_HEAD, expand=True)
    for name, ratio in (("what", 5), ("old", 4), ("new", 4), ("what depends on it", 5)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for topic, rows in groupby(found, key=lambda row: row.topic):
        table.add_section()
        table.add_row(Text(topic, style="bold"))
        for row in rows:
            name = _MODULE.sub("", row.name)
            # As text: what is in brackets is no markup.
            table.add_row(*(Text(cell) for cell in (f"  {name}", row.old, row.new, row.used_by)))
    console.print(table)


def rehearse(candidates: Sequence[Requirement], console: Console) -> bool:
    """Build, compare and test; whether the contract suite passes."""
    started = time.monotonic()
    names = [canonicalize_name(candidate.name) for candidate in candidates]
    for candidate in candidates:
        console.print(f"{candidate} instead of {version(candidate.name)}")
    python = build(DIRECTORY, candidates)
    console.print(f"{_seconds(started)}: built .rehearsal; collecting facts here and there")
    old, new = facts_of(sys.executable, DIRECTORY / "old.json"), facts_of(python, DIRECTORY / "new.json")
    show(differences(old, new), console)
    console.print(f"{_seconds(started)}: {len(old)} facts compared; running the contract suite there")
    passed, lines = run(python, names)
    for line in lines:
        console.print(Text(line))
    console.print(f"{_seconds(started)}: the contract suite {'passes' if passed else 'FAILS'}")
    return passed


def _seconds(started: float) -> str:
    return f"{time.monotonic() - started:.0f} s"


def _candidate(text: str) -> Requirement:
    requirement = Requirement(text)
    if canonicalize_name(requirement.name) not in CONTRACTS:
        message = f"{requirement.name} is none of {', '.join(CONTRACTS)}"
        raise argparse.ArgumentTypeError(message)
    return requirement


def main() -> int:
    """Read the arguments and rehearse."""
    parser = argparse.ArgumentParser(prog="python -m tests.rehearsal", description=__doc__)
    parser.add_argument("candidates", nargs="+", type=_candidate, metavar="PACKAGE==VERSION")
    console = Console(width=None if sys.stdout.isatty() else 160)
    return 0 if rehearse(parser.parse_args().candidates, console) else 1


if __name__ == "__main__":
    sys.exit(main())
