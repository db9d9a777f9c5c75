"""What tests know of the processes that a server keeps."""

from pathlib import Path
from typing import Any

import psutil

from app.bootstrap.services import Services
from app.executors.aggregator import ExecutorAggregator
from app.executors.claude_agent.executor import ClaudeAgentExecutor
from app.executors.claude_agent.launching.pool import CliPool, ParkedCli
from app.executors.claude_agent.starter import CliStarter
from app.simulator.script import Responder
from tests.e2e.stories import World, WorldOf, is_running, until


async def a_parking_world(
    world_of: WorldOf, responder: Responder, *, idle: int = 2, **settings: Any
) -> World:
    """A world that keeps the processes of conversations and starts none before there is a run for it.

    Each that is started costs half a second of CPU; most stories of parked processes need no ready ones.
    """
    world = await world_of(responder, RUNTALLY_IDLE_PROCESSES=idle, **settings)
    await start_none_ahead(world)
    return world


async def start_none_ahead(world: World) -> None:
    """Start no more processes before there is a run for them: those of the last run would only be ended."""
    await _starter(world.services)._ahead.aclose()


def pool_of(world: World) -> CliPool:
    """The idle processes of a server in this process."""
    return _pool(world.services)


def idle_pid_files(services: Services) -> list[Path]:
    """Where the idle processes' launchers wrote their process ids."""
    return [idle.cli.process.directory.pid_file for idle in _pool(services)._idle]


def idle_pids(services: Services) -> list[int]:
    """The process ids of idle processes, as far as they are started."""
    texts = [path.read_text() for path in idle_pid_files(services) if path.exists()]
    return [int(text) for text in texts if text]


async def next_ready(world: World) -> psutil.Process:
    """The process that was started last, once it has warmed up and no other will be started."""
    starter = _starter(world.services)
    found: list[psutil.Process] = []

    def ready() -> bool:
        waiting = [idle.cli.process for idle in starter.pool._idle if idle.parked is None]
        found[:] = [psutil.Process(each.pid) for each in waiting if each._connected and each.pid]
        return len(found) == len(waiting) > 0 and not (starter._ahead._wanted or starter.pool.is_starting)

    await until(ready)
    return found[-1]


def _pool(services: Services) -> CliPool:
    return _starter(services).pool


def _starter(services: Services) -> CliStarter:
    aggregator = services.runs.supervisor.worker.executor
    assert isinstance(aggregator, ExecutorAggregator)
    executor = aggregator._executors["claude_agents"]
    assert isinstance(executor, ClaudeAgentExecutor)
    return executor.starter


def parked(world: World) -> list[str]:
    """The state keys of the conversations that have a process, least recently used first."""
    return [each.conversation.state_key for each in pool_of(world).parked()]


def process_of(world: World, key: str) -> psutil.Process:
    """The parked process of a conversation."""
    (found,) = [each for each in pool_of(world).parked() if each.conversation.state_key == key]
    return psutil.Process(int(pid_file(found).read_text()))


def pid_file(found: ParkedCli) -> Path:
    """Where its launcher wrote its process id."""
    return found.cli.process.directory.pid_file


async def gone(process: psutil.Process) -> None:
    """Wait until a process has ended."""
    await until(lambda: not is_running(process))
