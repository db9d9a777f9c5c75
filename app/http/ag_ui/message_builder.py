"""What one speaker of a run says, in the events of AG-UI: the agent, or one of its subagents."""

from collections.abc import Iterator

from ag_ui.core import (
    BaseEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)


class MessageBuilder:
    """Has one thing open at most: a message, or a span of reasoning."""

    def __init__(self, subagent: str | None) -> None:
        """`subagent` is the invocation, None the agent itself."""
        self._subagent = subagent
        self._message: str | None = None
        self._reasoning: str | None = None
        self._reasoning_of: str | None = None

    def say(self, message_id: str, delta: str) -> Iterator[BaseEvent]:
        """More text of a message, opened first unless it is open."""
        if self._message != message_id:
            yield from self.close()
            self._message = message_id
            yield TextMessageStartEvent(
                message_id=message_id, role="assistant", subagent_run_id=self._subagent
            )
        yield TextMessageContentEvent(message_id=message_id, delta=delta, subagent_run_id=self._subagent)

    def think(self, message_id: str, delta: str, *, position: int) -> Iterator[BaseEvent]:
        """More thinking of a message; where it begins gives the span its id."""
        if self._reasoning is None or self._reasoning_of != message_id:
            yield from self.close()
            self._reasoning, self._reasoning_of = f"{message_id}:thinking:{position}", message_id
            yield ReasoningStartEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
            yield ReasoningMessageStartEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
        yield ReasoningMessageContentEvent(
            message_id=self._reasoning, delta=delta, subagent_run_id=self._subagent
        )

    def close(self) -> Iterator[BaseEvent]:
        """End what is open."""
        if self._message is not None:
            yield TextMessageEndEvent(message_id=self._message, subagent_run_id=self._subagent)
        if self._reasoning is not None:
            yield ReasoningMessageEndEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
            yield ReasoningEndEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
        self._message = self._reasoning = None
