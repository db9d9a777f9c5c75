"""What the responses of this wire have in common."""

from collections.abc import Sequence
from typing import Final

from fastapi import Response

IGNORED: Final = "Runtally-Ignored"


def name_ignored(response: Response, names: Sequence[str]) -> None:
    """Name the parameters that had no effect."""
    if names:
        response.headers[IGNORED] = ", ".join(names)
