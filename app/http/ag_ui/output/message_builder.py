"""MessageBuilder: the AG-UI message events of the agent or of one subagent."""

from collections.abc import Iterator

from ag_ui import core


class MessageBuilder:
    """Keeps at most one message or one span of reasoning open."""

    def __init__(self, subagent: str | None) -> None:
        """`subagent` is the id of the tool call that started it; None is the agent itself."""
        self._subagent = subagent
        self._message: str | None = None
        self._reasoning: str | None = None
        self._reasoning_message: str | None = None

    def add_text(self, message_id: str, delta: str) -> Iterator[core.BaseEvent]:
        """Text of a message, which is opened unless it is open."""
        if self._message != message_id:
            yield from self.close()
            self._message = message_id
            yield core.TextMessageStartEvent(
                message_id=message_id, role="assistant", subagent_run_id=self._subagent
            )
        yield core.TextMessageContentEvent(message_id=message_id, delta=delta, subagent_run_id=self._subagent)

    def add_reasoning(self, message_id: str, delta: str, *, position: int) -> Iterator[core.BaseEvent]:
        """Reasoning of a message; the position of its first delta is part of the span's id."""
        if self._reasoning is None or self._reasoning_message != message_id:
            yield from self.close()
            self._reasoning, self._reasoning_message = f"{message_id}:thinking:{position}", message_id
            yield core.ReasoningStartEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
            yield core.ReasoningMessageStartEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
        yield core.ReasoningMessageContentEvent(
            message_id=self._reasoning, delta=delta, subagent_run_id=self._subagent
        )

    def close(self) -> Iterator[core.BaseEvent]:
        if self._message is not None:
            yield core.TextMessageEndEvent(message_id=self._message, subagent_run_id=self._subagent)
        if self._reasoning is not None:
            yield core.ReasoningMessageEndEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
            yield core.ReasoningEndEvent(message_id=self._reasoning, subagent_run_id=self._subagent)
        self._message = self._reasoning = None
