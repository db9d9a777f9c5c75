import asyncio

import pytest

from app.errors import Unavailable
from app.events import ClientEvent, RunWarning, TextDelta
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.clock.lease import Lease
from app.platform.db import DatabaseUnavailable
from app.runs.events.publisher import RunEventPublisher
from app.streams.memory import MemoryEventLog
from tests.factories import an_unused_database
from tests.unit.waiting import turns

RUN = RunKey(AccountId(new_uuid()), RunId("run-1"))


class SlowLog(MemoryEventLog):
    """Takes a while for each event, and cannot take two at once."""

    def __init__(self) -> None:
        super().__init__()
        self.unavailable = False
        self._busy = False

    async def append(self, run: RunKey, event: ClientEvent, *, at: int | None = None) -> int:
        assert not self._busy, "two events are appended at once"
        self._busy = True
        try:
            await turns(3)
            if self.unavailable:
                raise Unavailable
            return await super().append(run, event, at=at)
        finally:
            self._busy = False


def a_word(word: str) -> TextDelta:
    return TextDelta(message_id="m", delta=word)


async def test_events_published_at_once_are_appended_one_after_the_other() -> None:
    log = SlowLog()
    publisher = RunEventPublisher(an_unused_database(), log, RUN, attempt=0, lease=Lease())
    words = [a_word(str(number)) for number in range(10)]

    positions = await asyncio.gather(*(publisher.publish(word) for word in words))

    assert positions == list(range(1, 11))
    assert [entry.event for entry in await log.read(RUN)] == words


async def test_an_event_that_could_not_be_appended_is_raised_and_does_not_block_the_next() -> None:
    log = SlowLog()
    publisher = RunEventPublisher(an_unused_database(), log, RUN, attempt=0, lease=Lease())

    log.unavailable = True
    with pytest.raises(Unavailable):
        await publisher.publish(a_word("lost"))
    log.unavailable = False

    assert await publisher.publish(a_word("first")) == 1


async def test_an_event_waits_for_the_lease_and_one_of_a_lost_run_is_dropped() -> None:
    log, now = MemoryEventLog(), 0.0
    lease = Lease(15, elapsed_s=lambda: now)
    publisher = RunEventPublisher(an_unused_database(), log, RUN, attempt=0, lease=lease)
    now = 40.0
    waiting = asyncio.create_task(publisher.publish(a_word("late")))
    await turns(10)
    assert await log.read(RUN) == ()

    lease.renew(since=now)
    assert await waiting == 1
    lease.lose([RUN])
    assert await publisher.publish(a_word("from an attempt that is over")) is None

    assert [entry.event for entry in await log.read(RUN)] == [a_word("late")]


async def test_an_event_does_not_wait_for_ever() -> None:
    log, lease = MemoryEventLog(), Lease(0)
    publisher = RunEventPublisher(an_unused_database(), log, RUN, attempt=0, lease=lease, lease_wait_s=0.01)

    with pytest.raises(DatabaseUnavailable):
        await publisher.publish(a_word("never"))

    assert await log.read(RUN) == ()


async def test_an_event_of_the_beginning_is_published_by_one_attempt() -> None:
    log, given = MemoryEventLog(), an_unused_database()
    warning = RunWarning(code="client_tools_ignored", message="x", names=["a"])

    for attempt in range(3):
        publisher = RunEventPublisher(given, log, RUN, attempt=attempt, lease=Lease())
        await publisher.publish(a_word(str(attempt)))
        if attempt > 0:
            # The first attempt ended before it could publish it.
            await publisher.publish_once(warning)

    events = [entry.event for entry in await log.read(RUN)]
    assert events == [a_word("0"), a_word("1"), warning, a_word("2")]
