"""What the relay still lacks of a run."""

from app.events import Done, TextDelta
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.requests.outcome import FinalUsage
from app.streams.relay.batch import EventBatch
from app.streams.relay.written_run import WrittenRun
from app.streams.run_buffer import RunBuffer

DONE = Done(usage=FinalUsage(), finish_reason="stop")


def a_written_run(events: int, size: int = 4, *, after: int = 0) -> WrittenRun:
    written = WrittenRun(RunKey(AccountId(new_uuid()), RunId("run")), 0, RunBuffer(after=after))
    for _ in range(events):
        written.buffer.append(TextDelta(message_id="m", delta="x" * size))
    return written


def all_batches(written: WrittenRun) -> list[EventBatch]:
    batches = []
    while batch := written.next_batch():
        batches.append(batch)
        written.relayed = batch.last
    return batches


def test_batches_are_bounded_in_events_and_bytes() -> None:
    assert [(batch.first, batch.last) for batch in all_batches(a_written_run(1200))] == [
        (1, 500),
        (501, 1000),
        (1001, 1200),
    ]
    assert [len(batch.lines) for batch in all_batches(a_written_run(5, 150_000))] == [2, 2, 1]
    assert [len(batch.lines) for batch in all_batches(a_written_run(2, 2**20))] == [1, 1]


def test_a_batch_does_not_span_a_jump_of_positions() -> None:
    written = a_written_run(2, after=1000)
    written.buffer.insert_earlier(a_written_run(3).buffer.entries)
    assert [(batch.first, batch.last) for batch in all_batches(written)] == [(1, 3), (1001, 1002)]


def test_a_deleted_run_is_complete_with_its_marker() -> None:
    written = a_written_run(1)
    written.buffer.append(DONE)
    assert [(batch.last, batch.is_end) for batch in all_batches(written)] == [(2, True)]
    assert not written.is_complete
    written.delete()
    assert all_batches(written) == [EventBatch(3, is_end=True)]
    assert written.is_complete
