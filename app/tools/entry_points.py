"""What installed packages offer."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def offered(group: str) -> Sequence[EntryPoint]:
    """The entry points of a group, by name."""
    return sorted(_entry_points(tuple(sys.path)).select(group=group))


@cache
def _entry_points(_path: tuple[str, ...]) -> Any:
    """Those of all groups: to find those of one, the files of all installed packages are read.

    What it returns has another type from Python 3.12 on, with the same `select`.
    """
    return entry_points()
