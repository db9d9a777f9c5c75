"""The data of runs that one statement accepts."""

from datetime import datetime
from typing import NamedTuple

from app.conversations.records import Conversation, NewTurn, TurnBeginning
from app.runs.records import RunRecord


class AtOnce(NamedTuple):
    """What is checked and taken in the statement that inserts a run."""

    size: int
    """Bytes of its request."""
    max_stored: int | None
    """Bytes that its account may store."""
    credits: int
    """To reserve, if its account pays in advance."""
    at: datetime
    """By the clock of the ledger: whether grants have expired."""
    turn: NewTurn | None = None
    """None: it has no conversation."""
    max_transcript: int = 0
    """A conversation with so many bytes gets no further turn."""


class StoredAtOnce(NamedTuple):
    """What such a statement has stored."""

    record: RunRecord
    reserved: int | None
    """Credits; None: nothing limits what the account spends."""
    conversation: Conversation | None
    beginning: TurnBeginning | None
    """Of a turn that starts at once."""
