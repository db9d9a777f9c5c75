"""Texts of external MCP servers, bounded and cleaned; pure."""

from pydantic_core import to_json

from app.storable import storable

_ESCAPED_BYTES = 6
"""The most bytes that JSON needs for one character of up to 4 bytes, as it is written here."""


def one_line(text: str, max_chars: int) -> str:
    """The beginning of a text, on one line and without control characters."""
    beginning = storable(text[: max_chars * 2])
    printable = "".join(letter if letter.isprintable() else " " for letter in beginning)
    line = " ".join(printable.split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def cut_to(text: str, max_bytes: int) -> str:
    """The beginning of a text that has at most so many bytes in UTF-8, cut between two characters."""
    if len(text) <= max_bytes // 4:
        return text
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else encoded[: max(0, max_bytes)].decode(errors="ignore")


def cut_as_json(text: str, max_bytes: int) -> str:
    """The beginning of a text that has at most so many bytes as a JSON string."""
    while (excess := len(to_json(text)) - max_bytes) > 0 and text:
        text = text[: -max(1, excess // _ESCAPED_BYTES)]
    return text
