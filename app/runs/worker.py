"""Drain one run to its end, whoever is listening."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
import structlog

from app.billing.ledger import CreditLedger
from app.billing.receipt_queue import ReceiptQueue
from app.db import Database
from app.errors import AppError, Unavailable
from app.events import (
    AssistantFinal,
    ClientEvent,
    Done,
    MeterReport,
    OutputEvent,
    RunError,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    UsageReport,
)
from app.executors.port import (
    ABORTED,
    BUDGET,
    INTERNAL,
    ExecutionFailed,
    GraphExecutor,
    RunContext,
    RunOutcome,
)
from app.ids import RunKey
from app.requests import FinalUsage, GraphFinal, GraphRunRequest
from app.runs.event_codec import encode_events
from app.runs.publisher import RunEventPublisher
from app.runs.repository import finish_run, has_ended, mark_running, stored_request
from app.runs.request_codec import RequestCodec
from app.streams.event_json import to_json
from app.streams.port import EventLog, LogEntry
from app.usage import UsageTotal

log = structlog.get_logger(__name__)


FIRST_ATTEMPT = 0
POSITIONS_PER_ATTEMPT = 1_000_000
"""Where a later attempt begins to count when what was said before it is gone: a reader who heard
the attempt before hears it on, from wherever that broke off."""

_EVENT_BYTES = 1024
"""What an event takes besides its text."""
_RETRY_S = 5.0
_FLUSH_S = 0.5
"""How long the end of a run waits for its receipts to be in the database."""


@dataclass(slots=True)
class _Progress:
    """What the run's end is told from."""

    answer: AssistantFinal | None = None
    outcome: RunOutcome = INTERNAL
    usage: UsageTotal = field(default_factory=UsageTotal)
    report: MeterReport | None = None
    text: list[str] = field(default_factory=list)
    message_id: str | None = None
    size: int = 0
    """About how much memory what was said takes in the event log."""
    output_exceeded: bool = False
    """Whether the run said more than it may."""

    def add(self, event: OutputEvent) -> None:
        """Remember the answer, or the last message as far as it came."""
        self.size += _size_of(event)
        if isinstance(event, AssistantFinal):
            self.answer = event
        elif isinstance(event, TextDelta) and event.parent_tool_call_id is None:
            if event.message_id != self.message_id:
                self.message_id, self.text = event.message_id, []
            self.text.append(event.delta)

    def final(self, context: RunContext) -> GraphFinal:
        """How the run ended; without an answer, what was said so far is kept."""
        answer = None if self.output_exceeded else self.answer
        outcome = BUDGET if self.output_exceeded else self.outcome
        return GraphFinal(
            ok=answer is not None,
            run_id=context.run.run_id,
            request_id=context.request_id,
            content=answer.content if answer else "".join(self.text),
            structured_output=answer.structured_output if answer else None,
            error=None if answer else outcome.error,
            finish_reason="stop" if answer else outcome.finish_reason,
            usage=FinalUsage(
                prompt_tokens=self.usage.prompt_tokens,
                completion_tokens=self.usage.completion_tokens,
            ),
        )


def _size_of(event: OutputEvent) -> int:
    if isinstance(event, TextDelta | ThinkingDelta):
        return _EVENT_BYTES + len(event.delta)
    return _EVENT_BYTES + len(to_json(event))


@dataclass(frozen=True, slots=True)
class _Ended:
    """A run at its end, about to be kept."""

    run: RunKey
    attempt: int
    final: GraphFinal
    report: MeterReport | None


class RunWorker:
    """Carries runs: usage goes to billing, everything else to the event log."""

    def __init__(
        self,
        database: Database,
        executor: GraphExecutor,
        event_log: EventLog,
        *,
        receipts: ReceiptQueue,
        ledger: CreditLedger,
        codec: RequestCodec,
        max_output_bytes: int,
    ) -> None:
        self._max_output_bytes = max_output_bytes
        self._database = database
        self._codec = codec
        self._executor = executor
        self._receipts = receipts
        self._ledger = ledger
        self._log = event_log

    async def execute(
        self, context: RunContext, publisher: RunEventPublisher, *, request: GraphRunRequest | None = None
    ) -> GraphFinal:
        """Drain the run to its end; the one place that says how it ended.

        Without a request it is read from the database.
        """
        tally = _Progress(usage=context.spent.usage)
        try:
            await self._begin(context, publisher)
            request = request or await self._read_request(context.run)
            async with aclosing(self._executor.run(request, context)) as events:
                async for event in events:
                    match event:
                        case UsageReport(fact=fact):
                            tally.usage = tally.usage.plus(fact.usage)
                            self._receipts.record(fact)
                        case MeterReport():
                            tally.report = event
                        case _ if not tally.output_exceeded:
                            tally.add(event)
                            await publisher.publish(event)
                            self._check_output_limit(tally, context)
        except ExecutionFailed as error:
            tally.outcome = error.outcome
        except Exception:
            # One bad run must not end its neighbours.
            log.exception("run failed")
        finally:
            with anyio.CancelScope(shield=True):
                await context.control.end()
                await self._receipts.flush(context.run, within_s=_FLUSH_S)
                ended = _Ended(context.run, context.attempt, tally.final(context), tally.report)
                unstored = await self._end(ended)
        while unstored is not None:
            await asyncio.sleep(_RETRY_S)
            unstored = await self._store(ended, unstored)
        return ended.final

    def _check_output_limit(self, tally: _Progress, context: RunContext) -> None:
        """Stop a run that has said more than it may; its usage is heard to the end."""
        if tally.size > self._max_output_bytes:
            log.error("a run said more than it may and is stopped", max_bytes=self._max_output_bytes)
            tally.output_exceeded = True
            context.control.stop.set()

    async def _read_request(self, run: RunKey) -> GraphRunRequest:
        async with self._database.snapshot() as reader:
            text = await stored_request(reader, run)
        return await self._codec.decode(text)

    async def _begin(self, context: RunContext, publisher: RunEventPublisher) -> None:
        if context.control.stop.is_set():
            raise ExecutionFailed(*ABORTED)
        async with self._database.transaction() as tx:
            await mark_running(tx, context.run)
        if context.attempt > FIRST_ATTEMPT:
            await self._log.resume(context.run, after=context.attempt * POSITIONS_PER_ATTEMPT)
        started = RunStarted(
            run_id=context.run.run_id,
            graph_id=context.spec.id,
            model=context.model,
            attempt=context.attempt,
        )
        await publisher.publish(started)

    async def _end(self, ended: _Ended) -> Sequence[LogEntry] | None:
        """Keep the run and its events, then let readers hear the end; returns what is not kept yet.

        With the database away readers hear it first, and the run is kept as soon as it is back.
        """
        run, final = ended.run, ended.final
        terminal = terminal_events(final)
        try:
            entries = await self._log.read(run)
        except AppError as error:
            # Without the log only the end can be kept; it is told wherever a reader has got to.
            log.error("the events of a run are lost", reason=error.detail)  # noqa: TRY400
            entries = ()
        unstored = await self._store(
            ended, [*entries, *with_positions(terminal, after=last_position(entries))]
        )
        await close_log(self._log, run, terminal)
        log.info("run ended", error=final.error, finish_reason=final.finish_reason)
        return unstored

    async def _store(self, ended: _Ended, entries: Sequence[LogEntry]) -> Sequence[LogEntry] | None:
        """Try to keep a run; returns the entries for another try."""
        try:
            rows = await asyncio.to_thread(encode_events, entries)
            async with self._database.transaction() as tx:
                # The run before the credit, as the reaper does: in one order nobody waits for ever.
                ours = await finish_run(
                    tx,
                    ended.run,
                    attempt=ended.attempt,
                    final=ended.final,
                    report=ended.report,
                    events=rows,
                )
                # Its calls may have set credit aside after another process took it for dead and ended it.
                if ours or await has_ended(tx, ended.run):
                    await self._ledger.release(tx, ended.run)
        except Unavailable as error:
            log.error("a finished run could not be kept yet", reason=error.detail)  # noqa: TRY400
            return entries
        except Exception:
            # Whatever it is, it must neither end the server nor be forgotten.
            log.exception("a finished run could not be kept")
            return entries
        if not ours:
            log.error("another process has ended this run already, or goes on with it")
        return None


async def close_log(event_log: EventLog, run: RunKey, terminal: Sequence[ClientEvent]) -> None:
    """Tell those who listen that the run has ended; those who come later ask the database."""
    try:
        for event in terminal:
            await event_log.append(run, event)
        await event_log.delete(run)
    except AppError as error:
        log.error("readers could not be told that a run ended", reason=error.detail)  # noqa: TRY400


def terminal_events(final: GraphFinal) -> list[ClientEvent]:
    """The last events of a run: its error, if any, and `done`."""
    done = Done(usage=final.usage, finish_reason=final.finish_reason)
    return [done] if final.error is None else [RunError(error=final.error), done]


def last_position(entries: Sequence[LogEntry]) -> int:
    """Where the last of these events stands; 0 for none."""
    return entries[-1].position if entries else 0


def with_positions(events: Sequence[ClientEvent], *, after: int) -> list[LogEntry]:
    """The events at the positions that follow."""
    return [LogEntry(position, event) for position, event in enumerate(events, start=after + 1)]
