"""Events of a streamed message of the Messages API -> the events that clients get; pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.events import OutputEvent, Status, TextDelta, ThinkingDelta
from app.executors.api_format.web import WebEvents


@dataclass(frozen=True, slots=True)
class DeltaMapper:
    """Maps the beginnings and deltas of content blocks."""

    show_thinking: bool
    tool_id_of: Callable[[str], str]
    """Maps the model's name of a tool to its id."""
    hidden_tool: str
    """The tool whose call is the structured answer, not a tool call."""
    web: WebEvents = field(default_factory=WebEvents)

    def block_start(self, block: Mapping[str, Any], parent: str | None = None) -> Iterator[OutputEvent]:
        """The events of a content block that begins; `parent` is the call that started the subagent."""
        if block["type"] == "thinking":
            yield Status(phase="thinking", label="Thinking", parent_tool_call_id=parent)
        elif block["type"] in ("tool_use", "server_tool_use") and block["name"] != self.hidden_tool:
            label = self.tool_id_of(block["name"])
            yield Status(phase="tool_use", label=label, parent_tool_call_id=parent)
        else:
            yield from self.web.result(block)

    def delta(
        self, delta: Mapping[str, Any], message_id: str, parent: str | None = None
    ) -> Iterator[OutputEvent]:
        if text := delta.get("text"):
            yield TextDelta(message_id=message_id, delta=text, parent_tool_call_id=parent)
        elif self.show_thinking and (thinking := delta.get("thinking")):
            yield ThinkingDelta(message_id=message_id, delta=thinking, parent_tool_call_id=parent)
        elif citation := delta.get("citation"):
            yield from self.web.citation(citation, message_id, parent)
