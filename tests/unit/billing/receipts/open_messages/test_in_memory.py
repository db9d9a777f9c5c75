"""Which messages in progress are due to be written, without a database."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.billing.receipts.open_messages.in_memory import (
    FIRST_WRITE_S,
    REWRITE_S,
    OpenMessageChanges,
    OpenMessages,
)
from app.billing.receipts.open_messages.records import OpenMessage
from app.usage.records import UsageFact
from tests.unit.billing.receipts.journals import a_fact


@dataclass
class Tracked:
    """Messages in progress, and a clock."""

    seconds: float = 0.0
    messages: OpenMessages = field(init=False)

    def __post_init__(self) -> None:
        self.messages = OpenMessages(lambda: self.seconds)

    def written(self, *, after_s: float = 0.0) -> Sequence[tuple[UsageFact, bool]]:
        """What is written later."""
        return self.changed(after_s=after_s).written

    def changed(self, *, after_s: float = 0.0) -> OpenMessageChanges:
        self.seconds += after_s
        changes = self.messages.take()
        self.messages.confirm(changes)
        return changes


def in_progress(fact: UsageFact) -> OpenMessage:
    return OpenMessage(fact, is_complete=False)


def test_a_message_is_written_after_half_a_second() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact())

    assert tracked.written(after_s=FIRST_WRITE_S - 0.1) == []
    assert tracked.written(after_s=0.1) == [(a_fact(), False)]


def test_a_short_message_is_never_written() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact())
    tracked.messages.queue(a_fact())
    tracked.messages.store([a_fact().key])

    assert not tracked.changed(after_s=FIRST_WRITE_S)


def test_a_message_that_has_grown_is_written_again_after_a_pause() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact())
    tracked.written(after_s=FIRST_WRITE_S)

    assert tracked.written(after_s=REWRITE_S) == []
    tracked.messages.update(a_fact(output=16))
    assert tracked.written() == [(a_fact(output=16), False)]
    tracked.messages.update(a_fact(output=32))
    tracked.messages.update(a_fact(output=30), is_complete=True)
    assert tracked.written(after_s=REWRITE_S - 0.1) == []
    assert tracked.written(after_s=0.1) == [(a_fact(output=30), True)]


def test_a_voided_message_is_removed_only_if_it_was_written() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact("msg_1"))
    tracked.written(after_s=FIRST_WRITE_S)
    tracked.messages.start(a_fact("msg_2"))
    tracked.messages.void(a_fact("msg_1"))
    tracked.messages.void(a_fact("msg_2"))

    assert tracked.messages.is_void(a_fact("msg_1").key)
    assert tracked.changed() == OpenMessageChanges([], frozenset({a_fact("msg_1").key}))
    assert not tracked.messages.is_void(a_fact("msg_1").key)
    assert not tracked.changed(after_s=FIRST_WRITE_S)


def test_a_placeholder_is_removed_by_the_statement_that_writes_its_message() -> None:
    tracked = Tracked()
    placeholder, message = a_fact("unanswered-1"), a_fact()
    tracked.messages.start(placeholder)
    tracked.written(after_s=FIRST_WRITE_S)

    tracked.messages.start(message, replaces=placeholder)

    assert tracked.changed() == OpenMessageChanges([in_progress(message)], frozenset({placeholder.key}))


def test_a_placeholder_that_was_not_written_leaves_no_trace() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact("unanswered-1"))
    tracked.messages.start(a_fact(), replaces=a_fact("unanswered-1"))

    assert not tracked.changed()
    assert tracked.changed(after_s=FIRST_WRITE_S) == OpenMessageChanges([in_progress(a_fact())])


def test_what_could_not_be_written_is_due_again() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact("msg_1"))
    tracked.messages.start(a_fact("msg_2"))
    tracked.messages.remove(["1/other"])
    tracked.seconds += FIRST_WRITE_S
    changes = tracked.messages.take()
    tracked.messages.queue(a_fact("msg_2"))

    tracked.messages.put_back(changes)

    assert tracked.changed() == OpenMessageChanges([in_progress(a_fact("msg_1"))], frozenset({"1/other"}))


def test_a_refused_message_is_not_written_again() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact())
    tracked.written(after_s=FIRST_WRITE_S)
    tracked.messages.give_up(a_fact())
    tracked.messages.update(a_fact(output=16))

    assert tracked.written(after_s=REWRITE_S) == []


def test_a_row_that_was_written_while_its_receipt_was_stored_is_removed() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact())
    tracked.seconds += FIRST_WRITE_S
    changes = tracked.messages.take()

    tracked.messages.queue(a_fact())
    tracked.messages.store([a_fact().key])
    tracked.messages.confirm(changes)

    assert tracked.changed() == OpenMessageChanges([], stored=frozenset({a_fact().key}))
    assert not tracked.changed()


def test_a_row_stays_until_the_receipt_is_stored() -> None:
    tracked = Tracked()
    tracked.messages.start(a_fact())
    tracked.seconds += FIRST_WRITE_S
    changes = tracked.messages.take()
    tracked.messages.queue(a_fact())
    tracked.messages.confirm(changes)

    assert not tracked.changed(after_s=REWRITE_S)
    tracked.messages.store([a_fact().key])
    assert tracked.changed().stored == {a_fact().key}
