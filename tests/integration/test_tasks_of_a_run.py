"""How many tasks a run of `messages` starts: the number may only fall."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from app.simulator.script import ApiRequest, Reply, Text
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import WorldOf, a_request

TASKS = 19
"""Each is about 1 % of the CPU of a run."""

RUNS = 20
"""At most so many, until one starts no more: periodic jobs start some, too."""


@contextmanager
def counted_tasks() -> Iterator[list[str]]:
    """The names of the functions of the tasks that are started."""
    loop, started = asyncio.get_running_loop(), list[str]()

    def start(own: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        started.append(work.__qualname__)
        return asyncio.Task(work, loop=own, **options)

    loop.set_task_factory(start)
    try:
        yield started
    finally:
        loop.set_task_factory(None)


def answers(_request: ApiRequest) -> Reply:
    return Reply([Text("Hello you.")])


async def test_a_run_starts_no_more_tasks_than_it_did(world_of: WorldOf) -> None:
    world = await world_of(answers)
    body = a_request(graphId=f"{MESSAGES}:assistant")
    # The first one connects to the model and the database.
    await world.run(body)

    for _ in range(RUNS):
        with counted_tasks() as started:
            heard = await world.run(body)
        assert heard[-1].type == "done"
        if len(started) <= TASKS:
            break

    assert len(started) <= TASKS, started
