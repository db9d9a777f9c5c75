"""DiscardedText: a text part whose message was discarded, while the next message may repeat it; pure.

No part of the stream takes text back. So the part stays open: as far as the next message begins with the same
text, that is not sent again, and the rest goes into the same part.
"""

from dataclasses import dataclass


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
