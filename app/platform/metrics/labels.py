"""KnownNames: bounds the values of a label, whatever names arrive from outside."""

from collections.abc import Callable
from dataclasses import dataclass

OTHER = "other"
"""The value of a label for every name that is not known."""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that may be values of a label; a server knows all of them when it starts."""

    names: frozenset[str] = frozenset()
    normalize: Callable[[str], str] = str
    """Makes one name of all its spellings."""

    def label(self, name: str) -> str:
        """The value of the label for this name."""
        known = self.normalize(name)
        return known if known in self.names else OTHER
