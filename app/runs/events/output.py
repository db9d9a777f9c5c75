"""RunOutput: receives the events of a run's executor and derives the run's final result from them."""

from dataclasses import dataclass, field

import structlog

from app import events
from app.billing.prices.model_names import is_alias
from app.billing.receipts.queue import ReceiptQueue
from app.executors.control import RunControl
from app.executors.port import BUDGET, INTERNAL, RunOutcome, RunPlan
from app.models.context_windows import known_window
from app.platform.telemetry.run_trace import RunTrace
from app.requests.outcome import FileChanges, FinalUsage, GraphFinal, SpentBudget
from app.runs.events.publisher import RunEventPublisher
from app.streams.event_json import to_json
from app.usage.records import UsageTotal

log = structlog.get_logger(__name__)

_EVENT_BYTES = 1024
"""The approximate size of an event without its text."""


@dataclass(slots=True)
class RunOutput:
    """Implements `EventSink`: usage goes to billing, everything else to the run's publisher."""

    plan: RunPlan
    control: RunControl
    publisher: RunEventPublisher
    receipts: ReceiptQueue
    max_bytes: int
    """A run with more output is stopped."""
    trace: RunTrace | None = None
    outcome: RunOutcome = INTERNAL
    """How the run ended, if it has no answer."""
    budget: SpentBudget | None = None
    """The one that was reached, if that is why."""
    report: events.MeterReport | None = field(init=False)
    """Of all that was executed of the run: also before it was parked."""
    size: int = 0
    """About how many bytes its events take."""
    _limit_exceeded: bool = False
    _answer: events.AssistantFinal | None = None
    _file_changes: FileChanges | None = None
    _usage: UsageTotal = field(init=False)
    _context_used: int | None = None
    _context_window: int | None = None
    _message_id: str | None = None
    _text: list[str] = field(default_factory=list)
    """The last message of the main agent."""

    def __post_init__(self) -> None:
        self._usage = self.plan.spent.usage
        self.report = self.plan.reported

    async def publish(self, event: events.AiEvent) -> int | None:
        match event:
            case events.UsageReport(fact=fact):
                if self.trace is not None:
                    self.trace.observe(event)
                self._usage = self._usage.plus(fact.usage)
                # A message that broke off is reported last, and had the same prompt.
                if (fact.origin, fact.basis) == ("assistant", "final"):
                    self._context_used = fact.usage.prompt_tokens + fact.usage.output_tokens
                    self._context_window = self._window_of(fact.model)
                self.receipts.record(fact)
            case events.MeterReport():
                self.report = event if self.report is None else self.report.plus(event)
            case _ if not self._limit_exceeded:
                return await self._publish_output(event)
        return None

    def final(self) -> GraphFinal:
        """The result of the run; without an answer it contains the last message as far as it was sent."""
        answer = None if self._limit_exceeded else self._answer
        outcome = BUDGET if self._limit_exceeded else self.outcome
        spent = None if answer else self.budget
        return GraphFinal(
            ok=answer is not None,
            run_id=self.plan.run.run_id,
            request_id=self.plan.request_id,
            content=answer.content if answer else "".join(self._text),
            structured_output=answer.structured_output if answer else None,
            error=None if answer else outcome.error,
            finish_reason="stop" if answer else outcome.finish_reason,
            usage=FinalUsage(
                prompt_tokens=self._usage.prompt_tokens,
                completion_tokens=self._usage.completion_tokens,
            ),
            cached=self._cached,
            context_used=self._context_used,
            context_window=self._context_window,
            file_changes=self._file_changes,
            budget=None if spent is None else spent.id,
            resets_at=None if spent is None else spent.resets,
        )

    @property
    def _cached(self) -> tuple[int, int] | None:
        read, written = self._usage.cache_read_tokens, self._usage.cache_write_tokens
        return (read, written) if read or written else None

    def _window_of(self, model: str) -> int | None:
        """The context window of the model that wrote a message: the run's own, or its fallback."""
        if is_alias(self.plan.model, of=model):
            return self.plan.options.context_window
        return known_window(model)

    async def _publish_output(self, event: events.OutputEvent) -> int | None:
        self._add(event)
        self.control.observe(event)
        # The answer is published with the end of the run, once that is stored.
        is_answer = isinstance(event, events.AssistantFinal)
        position = None if is_answer else await self.publisher.publish(event)
        if isinstance(event, events.UserMessageDelivered) and position is not None:
            self.control.inbox.mark_delivered(event.message_id, position)
        if self.size > self.max_bytes:
            # Only the output ends here: usage is recorded until the executor has stopped.
            log.error("run.output_limit_exceeded", max_bytes=self.max_bytes)
            self._limit_exceeded = True
            self.control.stop.set()
        return position

    def _add(self, event: events.OutputEvent) -> None:
        self.size += _size_of(event)
        if isinstance(event, events.AssistantFinal):
            self._answer = event
        elif isinstance(event, events.FilesChanged):
            self._file_changes = FileChanges(files=event.files, more=event.more)
        elif isinstance(event, events.TextDelta) and event.parent_tool_call_id is None:
            if event.message_id != self._message_id:
                self._message_id, self._text = event.message_id, []
            self._text.append(event.delta)
        elif isinstance(event, events.MessageDiscarded) and event.message_id == self._message_id:
            self._text = []


def _size_of(event: events.OutputEvent) -> int:
    """The approximate memory that the event takes in the event log."""
    if isinstance(event, events.TextDelta | events.ThinkingDelta):
        return _EVENT_BYTES + len(event.delta)
    return _EVENT_BYTES + len(to_json(event))
