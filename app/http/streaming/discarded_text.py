"""DiscardedText: a text part whose message was discarded, while the next message may repeat it; pure.

No part of the stream takes text back. So the part stays open: as far as the next message begins with the same
text, that is not sent again, and the rest goes into the same part.
"""

from dataclasses import dataclass, field
from typing import Final

_BETWEEN: Final = "\n\n"


@dataclass(slots=True)
class DiscardedText:
    """An open text part that does not count any more."""

    part_id: str
    text: str
    repeated: str = ""
    """How the next message begins, as far as the part has the same text."""

    def add(self, delta: str) -> bool:
        """More text of the next message; returns whether the part has all of it, or begins it."""
        self.repeated += delta
        return self.text.startswith(self.repeated) or self.repeated.startswith(self.text)

    @property
    def is_repeated(self) -> bool:
        """Whether the next message begins with all of the part."""
        return self.repeated.startswith(self.text)

    @property
    def rest(self) -> str:
        """What the next message has beyond it."""
        return self.repeated[len(self.text) :]


@dataclass(slots=True)
class AnswerText:
    """The messages of a run as one text; no chunk takes text back."""

    _message: str | None = None
    """The message whose text was sent last."""
    _text: list[str] = field(default_factory=list)
    """What was sent of it."""
    _discarded: DiscardedText | None = None

    @property
    def is_empty(self) -> bool:
        return self._message is None

    def add(self, message_id: str, delta: str) -> str:
        """More text of a message; returns what to send."""
        if (discarded := self._discarded) is not None:
            if discarded.add(delta):
                return self._repeat(discarded, message_id) if discarded.is_repeated else ""
            delta, self._discarded = discarded.repeated, None
        begins = self._message is not None and self._message != message_id
        if self._message != message_id:
            self._message, self._text = message_id, []
        self._text.append(delta)
        return _BETWEEN + delta if begins else delta

    def discard(self, message_id: str) -> None:
        """The model writes this message again: what it repeats is not sent twice."""
        if self._discarded is not None:
            self._discarded.repeated = ""
        elif self._message == message_id:
            self._discarded, self._message = DiscardedText(message_id, "".join(self._text)), ""

    def close(self) -> str:
        """What was not sent because a discarded message begins with it."""
        discarded, self._discarded = self._discarded, None
        return "" if discarded is None or not discarded.repeated else _BETWEEN + discarded.repeated

    def _repeat(self, discarded: DiscardedText, message_id: str) -> str:
        self._discarded, self._message, self._text = None, message_id, [discarded.repeated]
        return discarded.rest
