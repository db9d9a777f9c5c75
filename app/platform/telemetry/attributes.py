"""Names and values of attributes that are safe to send; pure."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]
Backend = Literal["langfuse", "openinference"]

PROVIDER = "anthropic"
MAX_NAME_CHARS = 200
OTHER = "_OTHER"
"""The name of everything else, where there could be too many names."""


def clean(name: str) -> str:
    """A name from a model or a provider without control characters and of bounded length."""
    if len(name) <= MAX_NAME_CHARS and name.isprintable():
        return name
    return "".join(char if char.isprintable() else "?" for char in name[:MAX_NAME_CHARS])


def present(values: Mapping[str, Value | None]) -> Attributes:
    """Without those that are not known."""
    return {name: value for name, value in values.items() if value is not None}


class BoundedNames:
    """Lets a limited number of names pass: an attribute of metrics has few values."""

    def __init__(self, most: int = 100) -> None:
        self._most = most
        self._known: set[str] = set()

    def limit(self, name: str) -> str:
        """The name, or `OTHER` if there are too many."""
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name
