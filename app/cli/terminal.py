"""A terminal that shows what others have written, and obeys none of it."""

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from app.storable import REPLACEMENT, storable

# Control characters but line breaks and tabs, and those that turn the direction of what follows.
_CONTROL_CHARACTERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def sanitized(text: str) -> str:
    """The text as a terminal may be given it; no length changes."""
    return _CONTROL_CHARACTERS.sub(REPLACEMENT, storable(text))


class Terminal(Console):
    """Escape sequences come from styles alone."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See rich; whatever is printed, also inside a table, passes through here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(sanitized(segment.text), segment.style)
