"""OpenMessages: which messages in progress of this process are due to be written; in memory, no SQL."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from app.billing.receipts.open_messages.records import OpenMessage
from app.platform.clock.boot_time import boot_time
from app.usage.records import UsageFact

FIRST_WRITE_S = 0.5
"""A message that is charged within this time is never written."""

REWRITE_S = 5.0
"""How long after it was written a message that has grown is written again: what it has produced since is not
charged if the machine is lost. Each write costs about a fifth of what a receipt costs."""


@dataclass(frozen=True, slots=True)
class OpenMessageChanges:
    """What one statement changes."""

    written: Sequence[OpenMessage] = ()
    void: frozenset[str] = frozenset()
    """Keys of messages that are not charged."""
    stored: frozenset[str] = frozenset()
    """Keys of messages whose receipts are stored, and whose rows may have been written after that."""

    def __bool__(self) -> bool:
        return bool(self.written or self.void or self.stored)


@dataclass(slots=True)
class _Tracked:
    fact: UsageFact
    due: float
    is_complete: bool = False
    has_changed: bool = True
    """Since it was written."""
    is_written: bool = False
    """Whether the database may have a row of it."""


@dataclass(slots=True)
class OpenMessages:
    """The messages from their start until their receipts are queued. Does no I/O."""

    now: Callable[[], float] = boot_time
    _open: dict[str, _Tracked] = field(default_factory=dict)
    _void: set[str] = field(default_factory=set)
    _stored: set[str] = field(default_factory=set)
    _being_written: set[str] = field(default_factory=set)
    _written_late: set[str] = field(default_factory=set)
    """Messages whose receipts were queued while their rows were being written: the receipt's statement may
    have looked for the row too early."""

    def start(self, fact: UsageFact, replaces: UsageFact | None = None) -> None:
        """A message has started, and perhaps replaces its placeholder."""
        self._void.discard(fact.key)
        message = self._open[fact.key] = _Tracked(fact, self.now() + FIRST_WRITE_S)
        if replaces is not None and self.is_written(replaces.key):
            # With the statement that removes the placeholder: at any moment one of the two is there.
            message.due = self.now()
        if replaces is not None:
            self.void(replaces)

    def update(self, fact: UsageFact, *, is_complete: bool = False) -> None:
        """A message that has started has grown, or is complete."""
        message = self._open.get(fact.key)
        if message is not None:
            message.fact, message.is_complete, message.has_changed = fact, is_complete, True

    def void(self, fact: UsageFact) -> None:
        if self.is_written(fact.key):
            self._void.add(fact.key)
        self._open.pop(fact.key, None)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove messages that a process that died has voided."""
        self._void.update(keys)

    def is_written(self, key: str) -> bool:
        """Whether the database may have a row of a message in progress."""
        message = self._open.get(key)
        return message is not None and message.is_written

    def is_void(self, key: str) -> bool:
        """Whether the database may still have a message that is not charged."""
        return key in self._void

    def queue(self, fact: UsageFact) -> None:
        """The receipt of a message is queued; the statement that stores it removes the row."""
        if fact.key in self._being_written:
            self._written_late.add(fact.key)
        self._open.pop(fact.key, None)

    def store(self, keys: Iterable[str]) -> None:
        if self._written_late:
            late = self._written_late.intersection(keys)
            self._written_late -= late
            self._stored |= late

    def take(self) -> OpenMessageChanges:
        """What is to be changed in the database now; `confirm` or `put_back` must follow."""
        now = self.now()
        due = [each for each in self._open.values() if each.has_changed and each.due <= now]
        for message in due:
            message.due, message.has_changed, message.is_written = now + REWRITE_S, False, True
        self._being_written = {each.fact.key for each in due}
        changes = OpenMessageChanges(
            [OpenMessage(each.fact, each.is_complete) for each in due],
            frozenset(self._void),
            frozenset(self._stored),
        )
        self._stored.clear()
        return changes

    def confirm(self, changes: OpenMessageChanges) -> None:
        self._being_written.clear()
        self._void -= changes.void

    def put_back(self, changes: OpenMessageChanges) -> None:
        """The changes may not have been stored: they are due again."""
        self._being_written.clear()
        self._stored |= changes.stored
        for written in changes.written:
            message = self._open.get(written.fact.key)
            if message is not None:
                message.due, message.has_changed = self.now(), True

    def give_up(self, fact: UsageFact) -> None:
        """Never write a message again."""
        message = self._open.get(fact.key)
        if message is not None:
            message.due = math.inf
