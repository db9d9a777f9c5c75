"""Opens the dispatcher: PostgreSQL, or Temporal if the operator has one."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Literal

from app.bootstrap.infrastructure import Infrastructure
from app.ids import RunKey
from app.runs.dispatch.places import Places
from app.runs.dispatch.port import Dispatcher
from app.runs.dispatch.postgres import PostgresDispatcher
from app.runs.dispatch.queue import RunQueue
from app.runs.starting import RunStarter

if TYPE_CHECKING:
    from app.platform.temporal.connection import TemporalConnection


async def open_dispatcher(
    infra: Infrastructure,
    stack: AsyncExitStack,
    queue: RunQueue,
    *,
    places: Places,
    starter: RunStarter,
    stop: Callable[[RunKey, Literal["cancel"]], Awaitable[object]],
    temporal: "TemporalConnection | None",
) -> Dispatcher:
    """The dispatcher of this process; `stop` cancels a run."""
    graphs = [graph.id for graph in infra.planner.graphs.all()]
    if temporal is None:
        return PostgresDispatcher(
            queue,
            places,
            lease=infra.lease,
            graphs=graphs,
            start=starter.start,
            require_ready=infra.require_ready,
        )
    from app.runs.dispatch.temporal.activities import RunActivities
    from app.runs.dispatch.temporal.dispatcher import TemporalDispatcher

    activities = RunActivities(
        queue,
        places,
        infra.lease,
        graphs,
        execution=starter,
        stop=stop,
        require_ready=infra.require_ready,
    )
    dispatcher = TemporalDispatcher(temporal, activities, task_queue=infra.settings.temporal_task_queue)
    stack.push_async_callback(dispatcher.aclose)
    return dispatcher
