import asyncio
import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.billing.receipts.journal import Journal
from app.billing.receipts.journal_records import JournalReader
from app.usage.records import UsageFact
from tests.patience import PATIENCE_S
from tests.unit.billing.receipts.journals import SMALL, JournalDirectory, a_fact, partial, recovered


def test_a_replaced_record_leaves_exactly_one_of_the_two_after_any_crash(journals: JournalDirectory) -> None:
    prompt, answer = a_fact("unanswered-1"), a_fact("msg_1")
    crashed = journals.journal()
    crashed.start_message(prompt)
    before = journals.segments()[0].stat().st_size
    crashed.start_message(answer, replaces=prompt.key)
    crashed.close()
    (segment,) = journals.segments()
    whole = segment.read_bytes()

    ends = {}
    for end in range(before, len(whole) + 1):
        reader = JournalReader()
        reader.read(whole[:end])
        ends[end] = [fact.message_id for fact in reader.remaining.values()]

    assert ends[before] == ["unanswered-1"]
    assert ends[len(whole)] == ["msg_1"]
    assert set(map(len, ends.values())) == {1}


def test_replaced_and_acknowledged_records_keep_no_segment(journals: JournalDirectory) -> None:
    journal = journals.journal()
    for number in range(100):
        journal.start_message(a_fact(f"unanswered-{number}"))
        journal.start_message(a_fact(f"msg_{number}"), replaces=a_fact(f"unanswered-{number}").key)
        journal.acknowledge([a_fact(f"msg_{number}").key])

    assert len(journals.segments()) <= 2
    journal.close()
    assert list(journals.path.iterdir()) == []


def test_facts_come_back_as_they_were_to_the_microsecond(journals: JournalDirectory) -> None:
    whole = replace(a_fact("msg_1"), origin="subagent", parent_tool_call_id="toolu_1", attempt=3)
    partial = replace(a_fact("msg_2"), basis="partial", output_estimated=False)
    crashed = journals.journal()
    for fact in (whole, partial):
        crashed.complete_message(fact)
    crashed.close()

    assert journals.remaining() == [recovered(whole), partial]


@pytest.mark.parametrize("lost", range(1, 1200, 47))
def test_a_torn_tail_loses_at_most_the_last_record(journals: JournalDirectory, lost: int) -> None:
    first, second = a_fact("msg_1"), a_fact("msg_2")
    crashed = journals.journal()
    crashed.complete_message(first)
    crashed.complete_message(second)
    crashed.close()
    (segment,) = journals.segments()
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-lost])

    remaining = journals.remaining()

    copy = len(whole.split(b"\n\n")[-2])
    # Two copies, each with two line ends: without those at its end, a copy is still whole.
    assert remaining == ([recovered(first), recovered(second)] if lost <= copy + 4 else [recovered(first)])
    assert not (journals.path / "damaged").exists()


@pytest.mark.parametrize("noise", [b"\n\n", b"zz\n", b"00000000 C {}\n", b"\xff\xfe\x00\n", b" \n"])
def test_noise_between_records_hides_no_record(journals: JournalDirectory, noise: bytes) -> None:
    crashed = journals.journal()
    facts = [a_fact("msg_1"), a_fact("msg_2")]
    for fact in facts:
        crashed.complete_message(fact)
    crashed.close()
    (segment,) = journals.segments()
    segment.write_bytes(noise + noise.join(segment.read_bytes().splitlines(keepends=True)) + noise)

    assert journals.remaining() == list(map(recovered, facts))


def test_segments_rotate_and_acknowledged_ones_are_deleted(journals: JournalDirectory) -> None:
    journal = journals.journal()
    for number in range(100):
        journal.start_message(a_fact(f"msg_{number}"))
    full = len(journals.segments())
    assert full > 5
    assert max(path.stat().st_size for path in journals.segments()) < 2 * SMALL

    journal.acknowledge(a_fact(f"msg_{number}").key for number in range(100))

    assert len(journals.segments()) < 3
    journal.close()
    assert list(journals.path.iterdir()) == []


def test_a_message_acknowledged_long_after_its_start_is_not_recovered(journals: JournalDirectory) -> None:
    """Its opening is in a segment that stays; so must be what says that it is done."""
    journal = journals.journal()
    waits, long = a_fact("msg_waits"), a_fact("msg_long")
    journal.start_message(waits)
    journal.start_message(long)
    for number in range(100):
        journal.complete_message(a_fact(f"msg_{number}"))
    journal.complete_message(long)
    journal.acknowledge([long.key, *(a_fact(f"msg_{n}").key for n in range(100))])
    journal.close()

    assert journals.remaining() == [partial(waits)]


def test_only_the_owner_can_read_the_journal(journals: JournalDirectory) -> None:
    before = os.umask(0)
    try:
        journal = journals.journal()
        for number in range(50):
            journal.start_message(a_fact(f"msg_{number}"))
    finally:
        os.umask(before)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in journals.path.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(journals.path.stat().st_mode) == 0o700
    journal.close()


async def test_a_sync_returns_with_everything_on_disk(journals: JournalDirectory) -> None:
    journal = journals.journal()
    await journal.sync()
    for number in range(50):
        journal.complete_message(a_fact(f"msg_{number}"))

    assert journal.unsynced_bytes > 0
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(journal.sync() for _ in range(20)))
        await journal.sync()

    assert (journal.unsynced_bytes, journal.problem) == (0, None)
    journal.close()


async def test_a_rotation_during_a_sync_loses_nothing(journals: JournalDirectory) -> None:
    journal = journals.journal(segment_bytes=SMALL)
    async with asyncio.timeout(PATIENCE_S):
        for number in range(300):
            journal.complete_message(a_fact(f"msg_{number}"))
            flushing = asyncio.create_task(journal.sync())
            await asyncio.sleep(0)
            journal.complete_message(a_fact(f"msg_{number}"))
            await flushing

    assert journal.problem is None
    assert len(journal.recover()) == 0
    journal.close()
    assert len(journals.remaining()) == 300


def test_a_message_is_recovered_with_what_had_arrived_of_it(journals: JournalDirectory) -> None:
    started = a_fact(output=1)
    searched = replace(started, usage=replace(started.usage, output_tokens=40, web_search_requests=1))
    journal = journals.journal(segment_bytes=10**6)
    journal.start_message(started)
    journal.update_message(a_fact("msg_unknown", output=7))
    journal.update_message(searched)
    size = journals.segments()[0].stat().st_size
    for output in (16, 96):
        journal.update_message(replace(searched, usage=replace(searched.usage, output_tokens=output)))
    assert journals.segments()[0].stat().st_size - size < 600
    journal.close()

    grown = replace(searched, usage=replace(searched.usage, output_tokens=96))
    assert journals.remaining() == [partial(grown)]


def test_a_growing_message_keeps_no_old_segment(journals: JournalDirectory) -> None:
    journal = journals.journal()
    journal.start_message(a_fact("msg_long"))
    for output in range(1000):
        journal.update_message(a_fact("msg_long", output=output))
        journal.start_message(a_fact(f"msg_{output}"))
        journal.acknowledge([a_fact(f"msg_{output}").key])
    assert len(journals.segments()) <= 2
    journal.close()

    assert journals.remaining() == [partial(a_fact("msg_long", output=999))]


NAMES = st.sampled_from([f"msg_{number}" for number in range(6)])
STEPS = st.lists(st.tuples(st.sampled_from(["opened", "grew", "closed", "done", "died"]), NAMES), max_size=60)


@given(steps=STEPS, segment_bytes=st.sampled_from([1, 300, 1000, 10**6]))
def test_a_new_process_finds_exactly_the_unacknowledged_facts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]], segment_bytes: int
) -> None:
    journals = JournalDirectory(tmp_path_factory.mktemp("journal"))
    journal = journals.journal(segment_bytes)
    remaining: dict[str, UsageFact] = {}
    for step, (what, name) in enumerate(steps):
        fact = a_fact(name, output=step)
        match what:
            case "opened":
                journal.start_message(fact)
                remaining[name] = partial(fact)
            case "grew":
                journal.update_message(fact)
                if name in remaining and remaining[name].basis == "partial":
                    remaining[name] = partial(fact)
            case "closed":
                journal.complete_message(fact)
                remaining[name] = recovered(fact)
            case "done":
                journal.acknowledge([fact.key])
                remaining.pop(name, None)
            case _:
                journal.close()
                assert _named(journals.remaining()) == remaining
                journal = _successor(journals, segment_bytes)
                remaining = {}
    journal.close()

    assert _named(journals.remaining()) == remaining


def _successor(journals: JournalDirectory, segment_bytes: int) -> Journal:
    """Adopts and delivers everything."""
    journal = journals.journal(segment_bytes)
    for fact in journal.recover():
        journal.acknowledge([fact.key])
    return journal


def _named(facts: list[UsageFact]) -> dict[str, UsageFact]:
    named: dict[str, UsageFact] = {fact.message_id: fact for fact in facts}
    assert len(named) == len(facts)
    return named
