"""Carrier: the runs this process carries, from their wait for a place to their end."""

import asyncio
from dataclasses import dataclass, field

import structlog
from anyio.abc import TaskGroup

from app.conversations.records import Conversation
from app.db import Database
from app.errors import AppError, Unavailable
from app.events import Queued
from app.executors.port import RunContext
from app.ids import RunKey
from app.requests import GraphFinal, GraphRunRequest
from app.runs.dispatcher import RunDispatcher, SlotHolder
from app.runs.publisher import RunEventPublisher
from app.runs.repository import unfinished_turns
from app.runs.worker import RunWorker
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

_CHECK_INTERVAL_S = 0.5
"""How often a run looks whether another process has ended the turn before it."""


@dataclass(slots=True)
class ActiveRun:
    """A run this process carries."""

    context: RunContext
    publisher: RunEventPublisher
    final: GraphFinal | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish_queued(self, position: int) -> None:
        """Tell readers that the run has to wait, and for how many."""
        try:
            await self.publisher.publish(Queued(position=position))
        except AppError as error:
            # The run will hear of it itself, should it last.
            log.warning("a reader was not told that its run waits", reason=error.detail)


class RunSupervisor:
    """Carries runs in tasks that outlive every request."""

    def __init__(
        self,
        database: Database,
        worker: RunWorker,
        event_log: EventLog,
        *,
        dispatcher: RunDispatcher,
        tasks: TaskGroup,
    ) -> None:
        self._database = database
        self._worker = worker
        self._log = event_log
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._live: dict[RunKey, ActiveRun] = {}

    def start(self, context: RunContext, request: GraphRunRequest | None = None) -> None:
        """Carry a run that the queue has counted in; without a request it is read when the run begins."""
        publisher = RunEventPublisher(self._database, self._log, context.run, context.control)
        self._live[context.run] = ActiveRun(context, publisher)
        self._tasks.start_soon(self._execute, context, request)

    def find(self, run: RunKey) -> ActiveRun | None:
        """The run, if it is carried here."""
        return self._live.get(run)

    def active_runs(self) -> list[RunKey]:
        """The runs carried here."""
        return list(self._live)

    def is_idle(self) -> bool:
        """Whether no run is carried here."""
        return not self._live

    async def drain(self, *, within_s: float) -> None:
        """Let the runs under way finish, and stop those that do not."""
        ended = [asyncio.create_task(live.ended.wait()) for live in self._live.values()]
        if not ended:
            return
        _, late = await asyncio.wait(ended, timeout=within_s)
        for live in self._live.values():
            live.context.control.stop.set()
        if late:
            await asyncio.wait(late, timeout=within_s)

    async def _execute(self, context: RunContext, request: GraphRunRequest | None) -> None:
        run, live = context.run, self._live[context.run]
        stop = context.control.stop
        try:
            with structlog.contextvars.bound_contextvars(run_id=run.run_id, request_id=context.request_id):
                if context.conversation is not None:
                    await self._wait_for_turn(context.conversation, live)
                holder = SlotHolder(run.account_id, context.attribution.api_key_id)
                async with self._dispatcher.acquire(holder, stop, on_wait=live.publish_queued):
                    live.final = await self._worker.execute(context, live.publisher, request=request)
        finally:
            self._dispatcher.release(run.account_id)
            del self._live[run]
            live.ended.set()

    async def _wait_for_turn(self, conversation: Conversation, live: ActiveRun) -> None:
        """Wait until the conversation's earlier runs have ended; a run that is stopped need not."""
        published = False
        while not live.context.control.stop.is_set():
            earlier = await self._earlier(conversation)
            if not earlier:
                return
            if not published:
                await live.publish_queued(len(earlier))
                published = True
            await self._either_ends(earlier, live.context.control.stop)

    async def _earlier(self, conversation: Conversation) -> list[RunKey]:
        while True:
            try:
                async with self._database.snapshot() as reader:
                    return await unfinished_turns(reader, conversation, before=conversation.turns)
            except Unavailable as error:
                log.warning("a run waits for the database to know its turn", reason=error.detail)
                await asyncio.sleep(_CHECK_INTERVAL_S)

    async def _either_ends(self, earlier: list[RunKey], stop: asyncio.Event) -> None:
        here = [live.ended for run in earlier if (live := self._live.get(run)) is not None]
        waits = [asyncio.create_task(event.wait()) for event in (*here, stop)]
        try:
            await asyncio.wait(waits, timeout=_CHECK_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
