import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from structlog.testing import capture_logs

from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal, JournalFailed, JournalUnavailable
from app.billing.receipts.queue import ReceiptQueue
from app.usage.records import TokenUsage
from tests.unit.billing.receipts.journals import JournalDirectory, a_fact, recovered


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """No file of this process may grow beyond this size: a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        # What is logged must not be written to a file, either.
        with capture_logs():
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 1, 100, 300])
async def test_a_full_disk_is_reported_until_there_is_space(journals: JournalDirectory, room: int) -> None:
    journal = journals.journal(segment_bytes=10**6)
    first, torn, late, after = (a_fact(f"msg_{name}") for name in ("first", "torn", "late", "after"))
    journal.complete_message(first)
    (segment,) = journals.segments()
    size = segment.stat().st_size

    with full_at(size + room):
        journal.complete_message(torn)
        problem = journal.problem
        journal.probe()
        still = journal.problem
        journal.complete_message(late)
        assert segment.stat().st_size == size + room

    assert problem == still == os.strerror(errno.EFBIG)
    journal.probe()
    assert journal.problem is None
    journal.complete_message(after)
    await journal.sync()
    journal.close()

    assert journals.remaining() == list(map(recovered, (first, torn, late, after)))


def test_probing_a_full_disk_does_not_use_more_memory(journals: JournalDirectory) -> None:
    journal = journals.journal(segment_bytes=10**6)
    with full_at(0):
        journal.complete_message(a_fact())
        for _ in range(100):
            journal.probe()

    journal.probe()
    (segment,) = journals.segments()
    assert len(segment.read_bytes().split()) == 2 * len(b"crc number kind payload".split())
    journal.close()


def test_a_process_that_dies_with_a_full_disk_leaves_what_it_wrote(journals: JournalDirectory) -> None:
    journal = journals.journal(segment_bytes=10**6)
    journal.complete_message(a_fact("msg_1"))
    (segment,) = journals.segments()
    with full_at(segment.stat().st_size + 50):
        journal.complete_message(a_fact("msg_2"))
        journal.close()

    assert [fact.message_id for fact in journals.remaining()] == ["msg_1"]


def test_closing_writes_what_could_not_be_written_before(journals: JournalDirectory) -> None:
    journal = journals.journal(segment_bytes=10**6)
    with full_at(50):
        journal.complete_message(a_fact())
    journal.close()

    assert [fact.message_id for fact in journals.remaining()] == ["msg_1"]


@pytest.mark.parametrize(
    ("started", "ended", "charged"),
    [
        # An estimate, and what the provider has counted.
        (TokenUsage(cache_write_5m_tokens=232), TokenUsage(input_tokens=8), [(8, 0, 0)]),
        (TokenUsage(input_tokens=8, output_tokens=1), TokenUsage(input_tokens=8), [(8, 1, 0)]),
        (
            TokenUsage(input_tokens=8, output_tokens=1),
            TokenUsage(input_tokens=8, output_tokens=5),
            [(8, 1, 0), (0, 4, 0)],
        ),
    ],
)
def test_a_message_that_cannot_be_journalled_is_charged_once(
    journals: JournalDirectory,
    started: TokenUsage,
    ended: TokenUsage,
    charged: list[tuple[int, int, int]],
) -> None:
    journal = journals.journal(segment_bytes=10**6)
    queue = ReceiptQueue(journal, PriceList())
    message = replace(a_fact(), usage=started, output_estimated=not started.output_tokens)
    with full_at(0):
        with pytest.raises(JournalUnavailable):
            queue.start_message(message)
        queue.complete_message(replace(message, usage=ended))
        queue.record(replace(message, usage=ended))
    journal.close()

    found = [each.fact.usage for each in queue.first(9)]
    assert [(each.input_tokens, each.output_tokens, each.cache_write_5m_tokens) for each in found] == charged


@contextmanager
def no_new_files() -> Iterator[None]:
    """What is open stays open, and nothing more can be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    unused = os.open(os.devnull, os.O_RDONLY)
    os.close(unused)
    resource.setrlimit(resource.RLIMIT_NOFILE, (unused, before[1]))
    try:
        with capture_logs():
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_failed_rotation_is_reported_and_loses_nothing(journals: JournalDirectory) -> None:
    facts = [a_fact(f"msg_{number}") for number in range(60)]
    journal = journals.journal()
    for fact in facts[:30]:
        journal.complete_message(fact)
    with no_new_files():
        for fact in facts[30:]:
            journal.complete_message(fact)
        assert journal.problem == os.strerror(errno.EMFILE)
        journal.acknowledge(fact.key for fact in facts[:30])
    journal.probe()
    assert journal.problem is None
    journal.close()

    assert journals.remaining() == list(map(recovered, facts[30:]))


async def test_without_new_files_a_journal_is_kept_until_it_is_full(journals: JournalDirectory) -> None:
    journal = journals.journal(segment_bytes=10**6)
    opened = psutil.Process().num_fds()
    with no_new_files(), capture_logs() as logs:
        for number in range(3):
            journal.complete_message(a_fact(f"msg_{number}"))
            journal.renew()
            assert journal.problem is None
    (segment,) = journals.segments()
    assert (logs, psutil.Process().num_fds()) == ([], opened)

    journal.renew()
    journal.acknowledge(f"{a_fact(f'msg_{number}').key}" for number in range(3))
    assert segment not in journals.segments()
    journal.close()


async def test_what_could_not_be_synced_is_synced_later(journals: JournalDirectory) -> None:
    journal = journals.journal()
    for number in range(30):
        journal.complete_message(a_fact(f"msg_{number}"))
    opened = psutil.Process().num_fds()
    with no_new_files():
        await journal.sync()
    assert (journal.unsynced_bytes > 0, psutil.Process().num_fds()) == (True, opened)

    await journal.sync()
    # Until then the full segments are open.
    assert (journal.unsynced_bytes, psutil.Process().num_fds() < opened) == (0, True)
    journal.close()


# A file system nobody may write to, even root, is the last.
@pytest.mark.parametrize("name", ["taken", "taken/journal", "/proc/self/journal"])
def test_a_directory_that_cannot_be_used_is_named_by_its_setting(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")

    with pytest.raises(JournalFailed, match="RUNTALLY_DATA_DIR: the receipt journal cannot be opened: "):
        Journal(tmp_path / name, uuid4())
