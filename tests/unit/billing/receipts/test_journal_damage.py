"""A damaged journal: one flipped bit loses nothing, and what is lost is known."""

import random
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.billing.receipts.journal_records import (
    ACKNOWLEDGED,
    COMPLETED,
    STARTED,
    UPDATED,
    JournalReader,
    encode,
    encode_fact,
    encode_progress,
)
from app.usage.records import UsageFact
from tests.unit.billing.receipts.journals import JournalDirectory, a_fact, partial, recovered

RECORDS = [
    encode(1, COMPLETED, encode_fact(a_fact("msg_1"))),
    encode(2, STARTED, encode_fact(a_fact("msg_2"))),
    encode(3, UPDATED, encode_progress(a_fact("msg_2", output=48))),
    encode(4, STARTED, encode_fact(a_fact("msg_3"))),
    encode(5, ACKNOWLEDGED, a_fact("msg_3").key.encode()),
    encode(6, COMPLETED, encode_fact(a_fact("msg_4"))),
]
FACTS = [recovered(a_fact("msg_1")), partial(a_fact("msg_2", output=48)), recovered(a_fact("msg_4"))]


def read(data: bytes) -> tuple[list[UsageFact], bool, int]:
    reader = JournalReader()
    damage = reader.read(data)
    return list(reader.remaining.values()), bool(damage), damage.lost


def flipped(data: bytes, bits: Sequence[int]) -> bytes:
    changed = bytearray(data)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_an_intact_journal_is_not_damaged() -> None:
    assert read(b"".join(RECORDS)) == (FACTS, False, 0)


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_any_flipped_bit_of_a_record_loses_nothing_and_is_noticed(number: int) -> None:
    data, start = b"".join(RECORDS), sum(map(len, RECORDS[:number]))
    for bit in range(8 * start, 8 * (start + len(RECORDS[number]))):
        facts, is_damaged, lost = read(flipped(data, [bit]))

        assert (facts, lost) == (FACTS, 0), bit
        # The two line ends after a copy, and the end of the file, are worth less than an alarm.
        assert is_damaged or data[bit // 8 : bit // 8 + 1] == b"\n", bit


KINDS = st.sampled_from(["starts", "grows", "ends", "replaces", "done"])
STEPS = st.lists(st.tuples(KINDS, st.integers(0, 3)), max_size=12)


@settings(max_examples=60)
@given(steps=STEPS, data=st.data())
def test_a_journal_that_ends_anywhere_is_as_it_was_after_one_of_its_records(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    journals = JournalDirectory(tmp_path_factory.mktemp("journal"))
    journal = journals.journal(segment_bytes=10**6)
    (segment,) = journals.segments()
    states = {0: read(b"")[0]}
    for step, (what, number) in enumerate(steps):
        fact = a_fact(f"msg_{number}", output=step)
        match what:
            case "starts":
                journal.start_message(fact)
            case "grows":
                journal.update_message(fact)
            case "ends":
                journal.complete_message(fact)
            case "replaces":
                journal.start_message(fact, replaces=a_fact(f"msg_{(number + 1) % 4}").key)
            case _:
                journal.acknowledge([fact.key])
        written = segment.read_bytes()
        states[len(written)] = read(written)[0]
    journal.close()

    end = data.draw(st.integers(0, len(written)) if steps else st.just(0))
    facts, is_damaged, lost = read(written[:end] if steps else b"")

    before = max(size for size in states if size <= end)
    after = min(size for size in states if size >= end)
    # The record at the end counts as soon as its first copy is there.
    assert facts in (states[before], states[after])
    assert (is_damaged, lost) == (False, 0)


def test_what_both_copies_lost_is_counted_and_nothing_else_is_missing() -> None:
    rng = random.Random(11)  # noqa: S311 - nothing secret
    for _ in range(300):
        damaged = rng.randrange(len(RECORDS))
        copy = len(RECORDS[damaged]) // 2
        bits = [8 * rng.randrange(copy - 2), 8 * (copy + rng.randrange(copy - 2))]
        records = [*RECORDS[:damaged], flipped(RECORDS[damaged], bits), *RECORDS[damaged + 1 :]]

        facts, is_damaged, lost = read(b"".join(records))

        assert is_damaged
        # How many follow the last readable record cannot be known.
        assert lost == (1 if 0 < damaged < len(RECORDS) - 1 else 0)
        if damaged in {0, 5}:
            assert facts == [fact for fact in FACTS if fact.message_id != f"msg_{1 if damaged == 0 else 4}"]


def test_the_journal_of_an_earlier_version_is_read() -> None:
    lines = []
    for kind, payload in ((b"O", encode_fact(a_fact("msg_1"))), (b"C", encode_fact(a_fact("msg_2")))):
        body = kind + b" " + payload
        lines.append(b"%08x %s\n" % (zlib.crc32(body), body))

    assert read(b"".join(lines)) == ([partial(a_fact("msg_1")), recovered(a_fact("msg_2"))], False, 0)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_damaged_file_is_kept_aside_with_an_alarm(journals: JournalDirectory, copies: int) -> None:
    facts = [a_fact(f"msg_{number}") for number in range(3)]
    crashed = journals.journal(segment_bytes=10**6)
    for fact in facts:
        crashed.complete_message(fact)
    crashed.close()
    (segment,) = journals.segments()
    whole = segment.read_bytes()
    damaged = whole.replace(b"msg_1", b"msg_7", copies)
    segment.write_bytes(damaged)

    with capture_logs() as logs:
        successor = journals.journal()
        found = successor.recover()
    successor.acknowledge(fact.key for fact in found)
    successor.close()

    lost = copies - 1
    assert found == [recovered(fact) for fact in facts if fact.message_id != "msg_1" or not lost]
    assert [entry for entry in logs if entry["event"] == "journal.damaged"] == [
        {
            "event": "journal.damaged",
            "log_level": "critical",
            "path": segment.name,
            "lines": copies,
            "lost": lost,
        }
    ]
    kept = journals.path / "damaged" / segment.name
    assert kept.read_bytes() == damaged
    assert [path.name for path in journals.path.iterdir()] == ["damaged"]
    later = journals.journal()
    assert (successor.damaged_files, later.damaged_files, later.recover()) == (1, 1, [])
    kept.unlink()
    assert later.damaged_files == 0
    later.close()


def test_a_damaged_file_of_which_nothing_remains_is_kept_aside(journals: JournalDirectory) -> None:
    crashed = journals.journal()
    crashed.complete_message(a_fact())
    crashed.close()
    (segment,) = journals.segments()
    segment.write_bytes(bytes(len(segment.read_bytes())) + b"\n")

    assert journals.remaining() == []
    assert (journals.path / "damaged" / segment.name).exists()


def test_a_file_that_the_disk_cannot_read_is_kept_aside_and_hides_no_other(
    journals: JournalDirectory,
) -> None:
    crashed = journals.journal()
    crashed.complete_message(a_fact("msg_1"))
    crashed.close()
    (segment,) = journals.segments()
    stem = segment.name.partition(".")[0]
    # The first page of a process's memory: reading it is an input/output error.
    (journals.path / f"{stem}.000002.journal").symlink_to("/proc/self/mem")

    with capture_logs() as logs:
        assert [fact.message_id for fact in journals.remaining()] == ["msg_1"]
        successor = journals.journal()
        successor.acknowledge(fact.key for fact in successor.recover())
        successor.close()

    assert ("journal.unreadable", "critical") in [(entry["event"], entry["log_level"]) for entry in logs]
    assert [path.name for path in (journals.path / "damaged").iterdir()] == [f"{stem}.000002.journal"]


def test_a_journal_that_cannot_be_opened_is_reported_until_it_can(journals: JournalDirectory) -> None:
    crashed = journals.journal()
    crashed.complete_message(a_fact("msg_1"))
    crashed.close()
    (lock,) = journals.path.glob("*.lock")
    lock.unlink()
    # No user can lock a folder.
    lock.mkdir()
    successor = journals.journal()

    with capture_logs() as logs:
        assert successor.recover() == []
    found_damaged = successor.damaged_files
    lock.rmdir()
    found = successor.recover()

    assert [(entry["event"], entry["process"]) for entry in logs] == [("journal.unreadable", lock.stem)]
    assert (found_damaged, [fact.message_id for fact in found], successor.damaged_files) == (1, ["msg_1"], 0)
    successor.close()


def test_an_intact_record_that_is_no_fact_is_kept_aside(journals: JournalDirectory) -> None:
    crashed = journals.journal()
    crashed.close()
    journals.path.mkdir(exist_ok=True)
    (journals.path / "old.lock").touch()
    segment = journals.path / "old.000001.journal"
    segment.write_bytes(encode(1, COMPLETED, b'{"of": "a newer version"}') + RECORDS[5])

    with capture_logs() as logs:
        successor = journals.journal()
        found = successor.recover()
    successor.acknowledge(fact.key for fact in found)
    successor.close()

    assert [fact.message_id for fact in found] == ["msg_4"]
    assert "journal.record_invalid" in [entry["event"] for entry in logs]
    assert (journals.path / "damaged" / segment.name).exists()
