"""LoopMeter: reports each message once, and compares the stream's numbers with the gateway's."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import structlog

from app.executors.messages_api.message import MessageFold
from app.executors.metering import usage_fact
from app.executors.port import RunPlan
from app.gateway.answer_usage import MessageUsage
from app.gateway.channel import Channel
from app.ids import MessageId
from app.usage.records import ExecutorType, Meters, Origin, UsageFact

log = structlog.get_logger(__name__)

EXECUTOR_TYPE: Final[ExecutorType] = "messages_api"
"""What receipts of this executor's runs name."""


@dataclass(slots=True)
class LoopMeter:
    """The numbers of the gateway are billed."""

    plan: RunPlan
    channel: Channel
    _seen: dict[str, MessageFold] = field(default_factory=dict)
    _reported: set[MessageId] = field(default_factory=set)
    _drift: int = 0

    def start(self, message: MessageFold) -> None:
        """The agent has got the beginning of a message; a second one in the same response is an alarm."""
        self._drift += self._seen.get(message.message_id) is message
        self._seen[message.message_id] = message

    def report(self, *, ended: bool = False) -> Iterator[UsageFact]:
        """The messages that are complete and were not reported; if the run has ended, all others as well."""
        # A copy: the gateway may record a message while another one is being reported.
        for message_id, measured in list(self.channel.messages.items()):
            if message_id not in self._reported and (ended or measured.complete):
                self._reported.add(message_id)
                self._compare(measured)
                yield usage_fact(
                    measured, self.plan, executor_type=EXECUTOR_TYPE, origin=self._origin_of(measured)
                )

    def summary(self) -> Meters:
        """How many messages each meter counted."""
        return Meters(sdk=len(self._seen), gateway=len(self.channel.messages), drift=self._drift)

    def _origin_of(self, measured: MessageUsage) -> Origin:
        seen = self._seen.get(measured.duplicate_of or measured.message_id)
        is_summary = measured.stop_reason == "compaction" or (seen is not None and seen.is_summary)
        return "hidden" if is_summary else "assistant"

    def _compare(self, measured: MessageUsage) -> None:
        seen = self._seen.get(measured.message_id)
        # Of a truncated message the agent knows the beginning only.
        if seen is None or seen.stop_reason is None or not measured.complete:
            return
        if seen.usage != measured.usage:
            self._drift += 1
            log.error(
                "meters.disagree", message_id=measured.message_id, sdk=seen.usage, gateway=measured.usage
            )
