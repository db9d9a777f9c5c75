"""Text as others write it -> text that can be shown; pure."""

from app.storable import storable


def loggable(text: str, *, most: int = 500) -> str:
    """The beginning of what somebody else has written, on one line and without control characters."""
    beginning = storable(text[:most])
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in beginning
    )
