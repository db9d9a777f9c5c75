"""Text as models write it -> text that can be stored and sent; pure."""

from typing import Any


def whole(text: str) -> str:
    """The text with unpaired surrogates replaced: they have no UTF-8 form."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def whole_json(value: Any) -> Any:
    """JSON with every string made whole."""
    match value:
        case str():
            return whole(value)
        case list():
            return [whole_json(item) for item in value]
        case dict():
            return {whole(key): whole_json(item) for key, item in value.items()}
        case _:
            return value


def loggable(text: str, *, most: int = 500) -> str:
    """The beginning of what somebody else has written, on one line and without control characters."""
    beginning = whole(text[:most])
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in beginning
    )
