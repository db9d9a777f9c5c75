"""The two meters of a run: what the SDK says was used, beside what the gateway saw.

The gateway's numbers win, because it sees every call. The SDK knows what a message was for: the
main thread's, or a subagent's and of which tool call.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from claude_agent_sdk import AssistantMessage, Message, StreamEvent

from app.executors.claude_agent.usage import MeteredMessage, is_message_id
from app.executors.port import RunContext
from app.gateway.channel import Channel
from app.gateway.wire import MessageUsage
from app.ids import MessageId
from app.usage import Meters, Origin, UsageFact

log = structlog.get_logger(__name__)


def fact_of(
    message: MessageUsage,
    context: RunContext,
    *,
    origin: Origin = "assistant",
    parent_tool_call_id: str | None = None,
) -> UsageFact:
    """What the gateway saw, as billing wants it."""
    return UsageFact(
        run=context.run,
        attempt=context.attempt,
        message_id=message.message_id,
        attribution=context.attribution,
        model=message.model,
        usage=message.usage,
        executor_type="claude_sdk",
        basis="final" if message.complete else "partial",
        output_estimated=message.output_estimated,
        origin=origin,
        parent_tool_call_id=parent_tool_call_id,
        note=message.note,
        at=message.at,
    )


class RunMeter(Protocol):
    """States what a run used: each message once."""

    def show(self, message: Message) -> None:
        """The SDK shows something; called before anybody else hears of it."""
        ...

    def feed(self, message: MeteredMessage) -> Iterator[UsageFact]:
        """A message the SDK is done with."""
        ...

    def close(self) -> Iterator[UsageFact]:
        """Nothing more will come: state what is left."""
        ...

    def report(self) -> Meters:
        """What each meter saw."""
        ...


@dataclass(slots=True)
class ComparingMeter:
    """Feed it what the SDK states; it states each message once, with the gateway's numbers."""

    context: RunContext
    lane: Channel
    _shown: dict[MessageId, str | None] = field(default_factory=dict)
    _of_sdk: dict[MessageId, MeteredMessage] = field(default_factory=dict)
    _stated: set[MessageId] = field(default_factory=set)
    _drift: int = 0

    def show(self, message: Message) -> None:
        """The SDK shows something of a message; that says whose it is, and nothing of its numbers."""
        match message:
            case AssistantMessage(message_id=str(message_id), parent_tool_use_id=parent):
                if is_message_id(message_id):
                    self._shown[MessageId(message_id)] = parent
            case StreamEvent(event={"type": "message_start", "message": {"id": str(message_id)}}):
                self._shown[MessageId(message_id)] = message.parent_tool_use_id
            case _:
                pass

    def feed(self, message: MeteredMessage) -> Iterator[UsageFact]:
        """A message the SDK is done with: stated now if the gateway is done with it, too."""
        self._of_sdk[message.message_id] = message
        seen = self.lane.messages.get(message.message_id)
        # A message that was cut is counted by the gateway to its end, so it is not known yet.
        if seen is not None and seen.complete:
            yield self._state(seen)

    def close(self) -> Iterator[UsageFact]:
        """The lane is closed: state what is left, also what the SDK never showed."""
        for message_id, seen in self.lane.messages.items():
            if message_id not in self._stated:
                yield self._state(seen)
        for message_id, stated in self._of_sdk.items():
            if message_id not in self.lane.messages:
                yield self._only_of_sdk(stated)

    def report(self) -> Meters:
        """What each of them saw."""
        return Meters(sdk=len(self._shown), gateway=len(self.lane.messages), drift=self._drift)

    def _state(self, seen: MessageUsage) -> UsageFact:
        self._stated.add(seen.message_id)
        if (shown := self._of_sdk.get(seen.message_id)) is not None:
            self._compare(shown, seen)
        if (seen.repeats or seen.message_id) not in self._shown:
            return fact_of(seen, self.context, origin="hidden")
        return self._attributed(seen)

    def _attributed(self, seen: MessageUsage) -> UsageFact:
        parent = self._shown.get(seen.repeats or seen.message_id)
        origin: Origin = "assistant" if parent is None else "subagent"
        return fact_of(seen, self.context, origin=origin, parent_tool_call_id=parent)

    def _compare(self, shown: MeteredMessage, seen: MessageUsage) -> None:
        # Of a message that was cut the SDK knows the beginning only.
        if shown.final and seen.complete and shown.usage != seen.usage:
            self._drift += 1
            log.error("the meters disagree", message=seen.message_id, sdk=shown.usage, gateway=seen.usage)

    def _only_of_sdk(self, shown: MeteredMessage) -> UsageFact:
        self._drift += 1
        log.error("a message the gateway did not see", message=shown.message_id, sdk=shown.usage)
        message = MessageUsage(
            shown.message_id, shown.model, shown.usage, complete=shown.final, output_estimated=not shown.final
        )
        return self._attributed(message)
