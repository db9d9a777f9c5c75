"""The title of a conversation until it is renamed: how its first question begins, or what a model says."""

import unicodedata
from typing import Final

MAX_TITLE_CHARS: Final = 120
MAX_FOUND_CHARS: Final = 60
"""Of a title that a model has found."""
_ELLIPSIS: Final = "…"
_MARKUP: Final = str.maketrans(dict.fromkeys("*_`#~<>[]{}|\\", " "))
_AROUND: Final = " \"'.:-\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"


def title_of(question: str, *, most: int = MAX_TITLE_CHARS) -> str | None:
    words = " ".join(question.split())
    if len(words) <= most:
        return words or None
    start = words[: most - len(_ELLIPSIS)]
    whole, _, _ = start.rpartition(" ")
    # Some languages have no spaces, and some words are as long as a title.
    return (whole if len(whole) >= len(start) // 2 else start) + _ELLIPSIS


def title_in(answer: str) -> str | None:
    """The title in an answer of a model, whatever it was led to say: one short line of plain text, or None.

    Control characters, and those that reverse or hide what follows, are left out.
    """
    line = next((line for line in answer.splitlines() if line.strip()), "")
    visible = "".join(
        char for char in line.translate(_MARKUP) if not unicodedata.category(char).startswith("C")
    )
    return title_of(" ".join(visible.split()).strip(_AROUND), most=MAX_FOUND_CHARS)
