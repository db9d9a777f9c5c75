"""For how many days contents are kept, by default and of some accounts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, Self

RetentionKind = Literal[
    "contents_days", "events_days", "transcripts_days", "workspaces_days", "evidence_days"
]


@dataclass(frozen=True, slots=True)
class Retention:
    """Days since the end of a run, or the last turn of a conversation; None: no limit."""

    contents_days: int | None = None
    """Requests and answers, with all else that is kept of a run except its conversation."""
    events_days: int | None = None
    transcripts_days: int | None = None
    """Conversations, with the contents of their runs."""
    workspaces_days: int | None = None
    evidence_days: int | None = None

    @classmethod
    def of(cls, days: Mapping[str, int] | None) -> Self:
        """That of an account, as it is stored."""
        return cls(**(days or {}))

    @property
    def days(self) -> dict[str, int]:
        """What it limits."""
        return {kind: days for kind, days in asdict(self).items() if days is not None}


KEPT_FOR_EVER = Retention()
