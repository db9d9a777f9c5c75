"""ComparingMeter: compares the SDK's usage numbers with the gateway's.

The gateway's numbers are billed, because every call passes it. Only the SDK knows what a message was
for: the main thread, or a subagent and which tool call started it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog
from claude_agent_sdk import AssistantMessage, Message, ResultMessage, StreamEvent

from app.executors.claude_agent.meters.cli_costs import CliCosts
from app.executors.claude_agent.meters.port import EXECUTOR_TYPE
from app.executors.claude_agent.meters.usage import MeteredMessage, is_message_id
from app.executors.metering import usage_fact
from app.executors.port import RunPlan
from app.gateway.answer_usage import MessageUsage
from app.gateway.channel import Channel
from app.ids import MessageId
from app.usage.records import Meters, Origin, UsageFact

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ComparingMeter:
    """The `RunMeter` of a run behind the gateway."""

    plan: RunPlan
    channel: Channel
    costs: CliCosts = field(default_factory=CliCosts)
    _parents: dict[MessageId, str | None] = field(default_factory=dict)
    """By message that the SDK reported: the call that started its subagent, None for the main agent."""
    _of_sdk: dict[MessageId, MeteredMessage] = field(default_factory=dict)
    _reported: set[MessageId] = field(default_factory=set)
    _drift: int = 0

    def observe(self, message: Message) -> None:
        """See the protocol; only the parent is used, the numbers are not final."""
        match message:
            case AssistantMessage(message_id=str(message_id), parent_tool_use_id=parent):
                if is_message_id(message_id):
                    self._parents[MessageId(message_id)] = parent
            case StreamEvent(event={"type": "message_start", "message": {"id": str(message_id)}}):
                self._parents[MessageId(message_id)] = message.parent_tool_use_id
            case ResultMessage():
                self.costs.observe(message, messages=len(self.channel.messages))
            case _:
                pass

    def feed(self, message: MeteredMessage) -> Iterator[UsageFact]:
        """See the protocol; a message the gateway has not completed is reported by `finish`."""
        self._of_sdk[message.message_id] = message
        measured = self.channel.messages.get(message.message_id)
        # The gateway counts a truncated message to its end, so its numbers are not known yet.
        if measured is not None and measured.complete:
            yield self._report(measured)

    def finish(self) -> Iterator[UsageFact]:
        """See the protocol; includes messages the SDK never showed. The channel must be closed.

        A message that the gateway did not see is no message of the provider, or the second one of a response:
        it is an alarm and is not charged.
        """
        for message_id, measured in self.channel.messages.items():
            if message_id not in self._reported:
                yield self._report(measured)
        for message_id, reported in self._of_sdk.items():
            if message_id not in self.channel.messages:
                self._drift += 1
                log.error("meters.not_measured", message_id=message_id, sdk=reported.usage)

    def summary(self) -> Meters:
        messages = len(self.channel.messages)
        cost = self.costs.compare(messages=messages)
        return Meters(sdk=len(self._parents), gateway=messages, drift=self._drift, cost=cost)

    def _report(self, measured: MessageUsage) -> UsageFact:
        self._reported.add(measured.message_id)
        self.costs.add(measured, requested=measured.call.requested_model or self.plan.model)
        if (reported := self._of_sdk.get(measured.message_id)) is not None:
            self._compare(reported, measured)
        if (measured.duplicate_of or measured.message_id) not in self._parents:
            return usage_fact(measured, self.plan, executor_type=EXECUTOR_TYPE, origin="hidden")
        parent = self._parents.get(measured.duplicate_of or measured.message_id)
        origin: Origin = "assistant" if parent is None else "subagent"
        return usage_fact(
            measured, self.plan, executor_type=EXECUTOR_TYPE, origin=origin, parent_tool_call_id=parent
        )

    def _compare(self, reported: MeteredMessage, measured: MessageUsage) -> None:
        # Of a truncated message the SDK knows the beginning only.
        if reported.final and measured.complete and reported.usage != measured.usage:
            self._drift += 1
            log.error(
                "meters.disagree",
                message_id=measured.message_id,
                sdk=reported.usage,
                gateway=measured.usage,
            )
