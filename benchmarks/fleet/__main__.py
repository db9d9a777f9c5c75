"""A fleet of two APIs and four workers beside a single process: what differs, and the goals.

All are processes of the real program with the executor `messages`, one PostgreSQL, one Valkey and one
scripted model; the single process has a database of its own and as many places as all workers together.
Everything shares this machine's processors: CPU seconds are printed for each section, because they are what
limits. Prints numbers and goals; timing is never a test.

    .venv/bin/python -m benchmarks.fleet
    .venv/bin/python -m benchmarks.fleet --quick
    .venv/bin/python -m benchmarks.fleet --only readers,handover
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

from app.platform.server.protocol import raise_open_files
from benchmarks.fleet.control import COMMANDS, HANDOVER
from benchmarks.fleet.deployment import Deployment, System, a_deployment, cpu_s, cpu_since
from benchmarks.fleet.reading import IDLE, READERS
from benchmarks.fleet.section import Section
from benchmarks.fleet.sizes import QUICK, Sizes
from benchmarks.fleet.starting import FAIRNESS, SPREAD, START
from benchmarks.markdown import table

# The last one stops workers.
SECTIONS = (START, SPREAD, COMMANDS, READERS, FAIRNESS, IDLE, HANDOVER)
HEAD = ("measured", "goal", "single process", "fleet", "ratio", "met")
_FEW_PLACES = 64
_SHOWN_S = 0.1


async def measure(
    directory: Path,
    sizes: Sizes,
    sections: Sequence[Section],
    show: Callable[[str], object],
    *,
    beside_single: bool = True,
) -> list[tuple[str, ...]]:
    """Measure the sections in order; `show` gets what is known after each. Returns the rows of the table."""
    rows: list[tuple[str, ...]] = []
    async with a_deployment(directory, sizes) as deployment:
        fleet = await deployment.system("fleet", workers=sizes.workers, places=sizes.runs)
        single = None
        if beside_single and any(not section.fleet_only for section in sections):
            # Each place keeps open files, which idle readers need.
            few = min(sizes.runs, _FEW_PLACES)
            places = few if list(sections) == [IDLE] else sizes.runs
            single = await deployment.system("single", workers=1, places=places)
        for section in sections:
            found = await _section(deployment, section, (fleet, single), sizes, show)
            rows += found
            show(table(HEAD, found))
    return rows


async def _section(
    deployment: Deployment,
    section: Section,
    systems: tuple[System, System | None],
    sizes: Sizes,
    show: Callable[[str], object],
) -> list[tuple[str, ...]]:
    fleet, single = systems
    show(f"\n## {section.name}\n")
    of_fleet = await _measured(deployment, section, fleet, sizes, show)
    if section is IDLE and single is not None:
        single = await deployment.system("single", workers=1, places=_FEW_PLACES)
    of_single = (
        {}
        if single is None or section.fleet_only
        else await _measured(deployment, section, single, sizes, show)
    )
    return [metric.row(of_single.get(metric.key), of_fleet[metric.key]) for metric in section.metrics]


async def _measured(
    deployment: Deployment, section: Section, system: System, sizes: Sizes, show: Callable[[str], object]
) -> dict[str, float]:
    before, began = cpu_s(deployment), time.monotonic()
    found = await section.measure(deployment, system, sizes)
    lasted = time.monotonic() - began
    used = cpu_since(before, deployment)
    parts = ", ".join(
        f"{name} {seconds:.1f}" for name, seconds in sorted(used.items()) if seconds >= _SHOWN_S
    )
    share = sum(used.values()) / lasted / (os.cpu_count() or 1) * 100
    load = os.getloadavg()[0]
    show(
        f"{system.name}: {lasted:.0f} s, {share:.0f} % of the processors (CPU s: {parts}); load {load:.1f}\n"
    )
    return dict(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [section.name for section in SECTIONS]
    parser.add_argument("--only", default=",".join(names), help=f"sections, of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look at it")
    for size in fields(Sizes):
        parser.add_argument(f"--{size.name.replace('_', '-')}", type=type(size.default), dest=size.name)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = _options()
    chosen = options.only.split(",")
    if unknown := set(chosen) - {section.name for section in SECTIONS}:
        message = f"--only: no section is called {', '.join(sorted(unknown))}"
        raise SystemExit(message)
    given = {size.name: getattr(options, size.name) for size in fields(Sizes)}
    sizes = replace(
        QUICK if options.quick else Sizes(),
        **{name: value for name, value in given.items() if value is not None},
    )
    raise_open_files()
    sections = [section for section in SECTIONS if section.name in chosen]
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        directory = Path(name)
        # PostgreSQL may run as another user.
        directory.chmod(0o755)
        asyncio.run(measure(directory, sizes, sections, lambda text: print(text, flush=True)))


if __name__ == "__main__":
    main()
