"""Untrusted text -> text that can be logged; pure."""

from app.storable import storable


def loggable(text: str, *, max_chars: int = 500) -> str:
    """The beginning of an untrusted text, on one line and without control characters."""
    beginning = storable(text[:max_chars])
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in beginning
    )
