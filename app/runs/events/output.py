"""RunOutput: receives the events of a run's executor and derives the run's final result from them."""

import structlog

from app.billing.prices.model_names import is_alias
from app.billing.receipts.queue import ReceiptQueue
from app.events import (
    AiEvent,
    AssistantFinal,
    MessageDiscarded,
    MeterReport,
    OutputEvent,
    TextDelta,
    ThinkingDelta,
    UsageReport,
    UserMessageDelivered,
)
from app.executors.control import RunControl
from app.executors.port import BUDGET, INTERNAL, RunOutcome, RunPlan
from app.models.context_windows import known_window
from app.platform.telemetry.run_trace import RunTrace
from app.requests.outcome import FinalUsage, GraphFinal
from app.runs.events.publisher import RunEventPublisher
from app.streams.event_json import to_json

log = structlog.get_logger(__name__)

_EVENT_BYTES = 1024
"""The approximate size of an event without its text."""


class RunOutput:
    """Implements `EventSink`: usage goes to billing, everything else to the run's publisher."""

    def __init__(
        self,
        plan: RunPlan,
        control: RunControl,
        *,
        publisher: RunEventPublisher,
        receipts: ReceiptQueue,
        max_bytes: int,
        trace: RunTrace | None = None,
    ) -> None:
        """`max_bytes`: a run with more output is stopped."""
        self._plan = plan
        self._control = control
        self._publisher = publisher
        self._receipts = receipts
        self._max_bytes = max_bytes
        self._trace = trace
        self._bytes = 0
        self._limit_exceeded = False
        self._answer: AssistantFinal | None = None
        self._usage = plan.spent.usage
        self._context_used: int | None = None
        self._context_window: int | None = None
        self._message_id: str | None = None
        self._text: list[str] = []
        """The last message of the main agent."""
        self.outcome: RunOutcome = INTERNAL
        """How the run ended, if it has no answer."""
        self.report: MeterReport | None = None

    async def publish(self, event: AiEvent) -> int | None:
        """See the port."""
        match event:
            case UsageReport(fact=fact):
                if self._trace is not None:
                    self._trace.observe(event)
                self._usage = self._usage.plus(fact.usage)
                # A message that broke off is reported last, and had the same prompt.
                if (fact.origin, fact.basis) == ("assistant", "final"):
                    self._context_used = fact.usage.prompt_tokens + fact.usage.output_tokens
                    self._context_window = self._window_of(fact.model)
                self._receipts.record(fact)
            case MeterReport():
                self.report = event
            case _ if not self._limit_exceeded:
                return await self._publish_output(event)
        return None

    @property
    def size(self) -> int:
        """About how many bytes its events take."""
        return self._bytes

    def final(self) -> GraphFinal:
        """The result of the run; without an answer it contains the last message as far as it was sent."""
        answer = None if self._limit_exceeded else self._answer
        outcome = BUDGET if self._limit_exceeded else self.outcome
        return GraphFinal(
            ok=answer is not None,
            run_id=self._plan.run.run_id,
            request_id=self._plan.request_id,
            content=answer.content if answer else "".join(self._text),
            structured_output=answer.structured_output if answer else None,
            error=None if answer else outcome.error,
            finish_reason="stop" if answer else outcome.finish_reason,
            usage=FinalUsage(
                prompt_tokens=self._usage.prompt_tokens,
                completion_tokens=self._usage.completion_tokens,
            ),
            context_used=self._context_used,
            context_window=self._context_window,
        )

    def _window_of(self, model: str) -> int | None:
        """The context window of the model that wrote a message: the run's own, or its fallback."""
        if is_alias(self._plan.model, of=model):
            return self._plan.options.context_window
        return known_window(model)

    async def _publish_output(self, event: OutputEvent) -> int | None:
        self._add(event)
        # The answer is published with the end of the run, once that is stored.
        is_answer = isinstance(event, AssistantFinal)
        position = None if is_answer else await self._publisher.publish(event)
        if isinstance(event, UserMessageDelivered) and position is not None:
            self._control.inbox.mark_delivered(event.message_id, position)
        if self._bytes > self._max_bytes:
            # Only the output ends here: usage is recorded until the executor has stopped.
            log.error("run.output_limit_exceeded", max_bytes=self._max_bytes)
            self._limit_exceeded = True
            self._control.stop.set()
        return position

    def _add(self, event: OutputEvent) -> None:
        self._bytes += _size_of(event)
        if isinstance(event, AssistantFinal):
            self._answer = event
        elif isinstance(event, TextDelta) and event.parent_tool_call_id is None:
            if event.message_id != self._message_id:
                self._message_id, self._text = event.message_id, []
            self._text.append(event.delta)
        elif isinstance(event, MessageDiscarded) and event.message_id == self._message_id:
            self._text = []


def _size_of(event: OutputEvent) -> int:
    """The approximate memory that the event takes in the event log."""
    if isinstance(event, TextDelta | ThinkingDelta):
        return _EVENT_BYTES + len(event.delta)
    return _EVENT_BYTES + len(to_json(event))
