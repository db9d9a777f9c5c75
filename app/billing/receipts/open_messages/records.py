"""Messages in progress, as they are written and as they are read."""

from dataclasses import dataclass
from typing import NamedTuple

from app.usage.records import UsageFact


class OpenMessage(NamedTuple):
    """A message in progress."""

    fact: UsageFact
    is_complete: bool
    """Whether its final usage is known."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row."""

    source_reference: str
    fact: str
    """As `journal_records.decode_fact` reads it."""
    is_complete: bool
