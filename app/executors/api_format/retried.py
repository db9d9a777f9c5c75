"""Messages that broke off and are requested again; pure.

When a stream breaks off, an agent keeps the complete content blocks of the message, drops the incomplete one,
and calls the model again. Clients have got its text by then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.events import MessageDiscarded, OutputEvent, RunWarning, Status, TextDelta, ThinkingDelta

_MS_PER_S = 1000


@dataclass(slots=True)
class WrittenMessage:
    """What clients have got of a message, and what the agent keeps of it."""

    message_id: str
    parent: str | None
    is_complete: bool = False
    _sent_text: list[str] = field(default_factory=list)
    _sent_thinking: list[str] = field(default_factory=list)
    _kept_text: list[str] = field(default_factory=list)
    _kept_thinking: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text that clients have got."""
        return "".join(self._sent_text)

    def add(self, event: OutputEvent) -> None:
        """Clients get this delta."""
        if isinstance(event, TextDelta):
            self._sent_text.append(event.delta)
        elif isinstance(event, ThinkingDelta):
            self._sent_thinking.append(event.delta)

    def keep(self, *, text: str = "", thinking: str = "") -> None:
        """The agent has a complete block of text or thinking."""
        self._kept_text.append(text)
        self._kept_thinking.append(thinking)

    def discarded_events(self, *, show_thinking: bool) -> Iterator[OutputEvent]:
        """The next message begins: discard what was dropped, and repeat what was kept of the same message."""
        text, thinking = "".join(self._kept_text), "".join(self._kept_thinking)
        is_kept = _same(text, self._sent_text) and (not show_thinking or _same(thinking, self._sent_thinking))
        if self.is_complete or is_kept:
            return
        ids: dict[str, Any] = {"message_id": self.message_id, "parent_tool_call_id": self.parent}
        yield MessageDiscarded(**ids)
        if show_thinking and thinking:
            yield ThinkingDelta(delta=thinking, **ids)
        if text:
            yield TextDelta(delta=text, **ids)


def retrying(*, attempt: Any, delay_ms: Any) -> Status:
    """The status of a call that is made again, as far as these are numbers."""
    return Status(
        phase="retrying",
        label="Retrying",
        attempt=attempt if type(attempt) is int else None,
        in_s=round(delay_ms / _MS_PER_S, 3) if isinstance(delay_ms, int | float) else None,
    )


OTHER_MODEL = Status(phase="retrying", label="Retrying with another model")
"""The status of a call that is made again with the model's fallback."""

ATTACHMENTS_LEFT_OUT: Final = RunWarning(
    code="attachments_left_out",
    message="The model does not get all attachments of the conversation: it takes no more, or refused one.",
    names=[],
)
"""The warning of a call that is made without some of the conversation's attachments."""


def _same(kept: str, sent: Sequence[str]) -> bool:
    return kept.strip() == "".join(sent).strip()
