"""Carrier: the runs this process carries, from their wait for a place to their end."""

import asyncio
from dataclasses import dataclass, field

import structlog
from anyio.abc import TaskGroup

from app.conversations.repository import Conversation
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

_ASK_AGAIN_S = 0.5
"""How often a run looks whether another process has ended the turn before it."""


@dataclass(slots=True)
class ActiveRun:
    """A run this process carries."""

    context: RunContext
    voice: RunEventPublisher
    final: GraphFinal | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def waits(self, position: int) -> None:
        """Tell readers that the run has to wait, and for how many."""
        try:
            await self.voice.say(Queued(position=position))
        except AppError as error:
            # The run will hear of it itself, should it last.
            log.warning("a reader was not told that its run waits", reason=error.detail)


class RunSupervisor:
    """Carries runs in tasks that outlive every request."""

    def __init__(
        self,
        database: Database,
        relay: RunWorker,
        event_log: EventLog,
        *,
        queue: RunDispatcher,
        tasks: TaskGroup,
    ) -> None:
        self._database = database
        self._relay = relay
        self._log = event_log
        self._queue = queue
        self._tasks = tasks
        self._live: dict[RunKey, ActiveRun] = {}

    def take_up(self, context: RunContext, request: GraphRunRequest | None = None) -> None:
        """Carry a run that the queue has counted in; without a request it is read when the run begins."""
        voice = RunEventPublisher(self._database, self._log, context.run, context.control)
        self._live[context.run] = ActiveRun(context, voice)
        self._tasks.start_soon(self._carry, context, request)

    def find(self, run: RunKey) -> ActiveRun | None:
        """The run, if it is carried here."""
        return self._live.get(run)

    def carried(self) -> list[RunKey]:
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

    async def _carry(self, context: RunContext, request: GraphRunRequest | None) -> None:
        run, live = context.run, self._live[context.run]
        stop = context.control.stop
        try:
            with structlog.contextvars.bound_contextvars(run_id=run.run_id, request_id=context.request_id):
                if context.session is not None:
                    await self._turn(context.session, live)
                holder = SlotHolder(run.account_id, context.attribution.api_key_id)
                async with self._queue.place(holder, stop, waits=live.waits):
                    live.final = await self._relay.carry(context, live.voice, request=request)
        finally:
            self._queue.discharge(run.account_id)
            del self._live[run]
            live.ended.set()

    async def _turn(self, session: Conversation, live: ActiveRun) -> None:
        """Wait until the conversation's earlier runs have ended; a run that is stopped need not."""
        told = False
        while not live.context.control.stop.is_set():
            earlier = await self._earlier(session)
            if not earlier:
                return
            if not told:
                await live.waits(len(earlier))
                told = True
            await self._either_ends(earlier, live.context.control.stop)

    async def _earlier(self, session: Conversation) -> list[RunKey]:
        while True:
            try:
                async with self._database.snapshot() as reader:
                    return await unfinished_turns(reader, session, before=session.turns)
            except Unavailable as error:
                log.warning("a run waits for the database to know its turn", reason=error.detail)
                await asyncio.sleep(_ASK_AGAIN_S)

    async def _either_ends(self, earlier: list[RunKey], stop: asyncio.Event) -> None:
        here = [live.ended for run in earlier if (live := self._live.get(run)) is not None]
        waits = [asyncio.create_task(event.wait()) for event in (*here, stop)]
        try:
            await asyncio.wait(waits, timeout=_ASK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
