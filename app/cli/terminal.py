"""Terminal: a console that prints untrusted text without its control sequences."""

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from app.storable import REPLACEMENT, storable

# Control characters except line breaks and tabs, and characters that change the text direction.
_CONTROL_CHARACTERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def sanitized(text: str) -> str:
    """The text without control characters; its length stays the same."""
    return _CONTROL_CHARACTERS.sub(REPLACEMENT, storable(text))


class Terminal(Console):
    """A console whose escape sequences come from styles only.

    Text is never read as markup of rich, which could contain links and styles.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See rich; everything printed passes through here, also inside a table."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(sanitized(segment.text), segment.style)
