"""Whether a text shows anything; providers refuse messages that do not."""

import unicodedata

from pydantic_core import PydanticCustomError

BLANK = "must not be blank: it has no visible character"

_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}
"""Unicode categories: spaces, line and paragraph separators, control and format characters."""


def is_blank(text: str) -> bool:
    """Whether no character of it is visible."""
    return all(unicodedata.category(char) in _INVISIBLE for char in text)


def require_visible(text: str) -> str:
    """The text; an error if it is blank."""
    if is_blank(text):
        raise blank_error()
    return text


def blank_error() -> PydanticCustomError:
    """The error of a field that is blank."""
    kind = "blank"
    return PydanticCustomError(kind, BLANK)
