"""Evidence as it is stored."""

from datetime import datetime
from typing import Any, NamedTuple


class EvidenceRecord(NamedTuple):
    """One piece, as operators get it."""

    position: int
    """Of a later attempt: after a multiple of `POSITIONS_PER_ATTEMPT`, as those of events."""
    at: datetime
    type: str
    content: dict[str, Any]


class NewEvidence(NamedTuple):
    """One piece that is to be stored; `content` is JSON."""

    position: int
    at: datetime
    type: str
    content: str
