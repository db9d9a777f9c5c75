"""Untrusted text -> text that can be logged; pure."""

from app.storable import storable

_MAX_CHARS = 500


def loggable(text: str) -> str:
    """The beginning of an untrusted text, on one line and without control characters."""
    beginning = storable(text[:_MAX_CHARS])
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in beginning
    )
