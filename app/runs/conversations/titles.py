"""The title of a conversation until it is renamed: how its first question begins."""

from typing import Final

MAX_TITLE_CHARS: Final = 120
_ELLIPSIS: Final = "…"


def title_of(question: str) -> str | None:
    """The first words of a question; None if it has none."""
    words = " ".join(question.split())
    if len(words) <= MAX_TITLE_CHARS:
        return words or None
    start = words[: MAX_TITLE_CHARS - len(_ELLIPSIS)]
    whole, _, _ = start.rpartition(" ")
    # Some languages have no spaces, and some words are as long as a title.
    return (whole if len(whole) >= len(start) // 2 else start) + _ELLIPSIS
