import asyncio
import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.billing.journal import Journal, _read
from app.usage import UsageFact
from tests.unit.billing.journals import PATIENCE_S, SMALL, Place, a_fact, partial, recovered


def test_what_was_opened_is_partial_and_what_was_closed_is_recovered(place: Place) -> None:
    crashed = place.journal()
    crashed.start_message(a_fact("msg_open"))
    crashed.start_message(a_fact("msg_shut", output=1))
    crashed.complete_message(a_fact("msg_shut", output=70))
    crashed.complete_message(a_fact("msg_whole"))
    crashed.start_message(a_fact("msg_done"))
    crashed.complete_message(a_fact("msg_done"))
    crashed.acknowledge([a_fact("msg_done").key])
    crashed.close()

    remaining = {fact.message_id: (fact.basis, fact.usage.output_tokens) for fact in place.remaining()}

    assert remaining == {
        "msg_open": ("partial", 5),
        "msg_shut": ("recovered", 70),
        "msg_whole": ("recovered", 5),
    }


def test_what_begins_instead_of_another_leaves_one_of_them_wherever_it_breaks(place: Place) -> None:
    prompt, answer = a_fact("unanswered-1"), a_fact("msg_1")
    crashed = place.journal()
    crashed.start_message(prompt)
    before = place.segments()[0].stat().st_size
    crashed.start_message(answer, replaces=prompt.key)
    crashed.close()
    (segment,) = place.segments()
    whole = segment.read_bytes()

    ends = {}
    for end in range(before, len(whole) + 1):
        segment.write_bytes(whole[:end])
        ends[end] = [fact.message_id for fact in dict(_read([segment])).values()]

    assert ends[before] == ["unanswered-1"]
    assert ends[len(whole)] == ["msg_1"]
    assert max(map(len, ends.values())) == 1


def test_what_was_begun_instead_of_another_keeps_no_segment(place: Place) -> None:
    journal = place.journal()
    for number in range(100):
        journal.start_message(a_fact(f"unanswered-{number}"))
        journal.start_message(a_fact(f"msg_{number}"), replaces=a_fact(f"unanswered-{number}").key)
        journal.acknowledge([a_fact(f"msg_{number}").key])

    assert len(place.segments()) <= 2
    journal.close()
    assert list(place.path.iterdir()) == []


def test_a_fact_comes_back_as_it_was_to_the_microsecond(place: Place) -> None:
    fact = replace(a_fact(), origin="subagent", parent_tool_call_id="toolu_1", attempt=3)
    crashed = place.journal()
    crashed.complete_message(fact)
    crashed.close()

    assert place.remaining() == [recovered(fact)]


def test_a_message_known_to_be_cut_off_stays_partial(place: Place) -> None:
    fact = replace(a_fact(), basis="partial", output_estimated=False)
    crashed = place.journal()
    crashed.complete_message(fact)
    crashed.close()

    assert place.remaining() == [fact]


def test_a_closing_corrects_the_one_before(place: Place) -> None:
    crashed = place.journal()
    last = a_fact(output=99)
    crashed.complete_message(a_fact(output=1))
    crashed.complete_message(last)
    crashed.close()

    assert place.remaining() == [recovered(last)]


def test_nothing_is_left_of_a_process_that_ended_in_order(place: Place) -> None:
    journal = place.journal()
    journal.start_message(a_fact())
    journal.acknowledge([a_fact().key])
    journal.close()

    assert list(place.path.iterdir()) == []


@pytest.mark.parametrize("lost", range(1, 400, 23))
def test_a_torn_tail_costs_the_last_record_at_most(place: Place, lost: int) -> None:
    first, second = a_fact("msg_1"), a_fact("msg_2")
    crashed = place.journal()
    crashed.complete_message(first)
    crashed.complete_message(second)
    crashed.close()
    (segment,) = place.segments()
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-lost])

    remaining = place.remaining()

    # Without its last byte, the end of the line, a record is still whole.
    assert remaining == ([recovered(first), recovered(second)] if lost == 1 else [recovered(first)])
    assert len(whole.splitlines()[-1]) > lost


def test_a_corrupted_line_in_the_middle_is_skipped_and_told(place: Place) -> None:
    facts = [a_fact(f"msg_{number}") for number in range(3)]
    crashed = place.journal()
    for fact in facts:
        crashed.complete_message(fact)
    crashed.close()
    (segment,) = place.segments()
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"output_tokens":5', b'"output_tokens":6')
    segment.write_bytes(b"".join(lines))

    with capture_logs() as logs:
        remaining = place.remaining()

    assert remaining == [recovered(facts[0]), recovered(facts[2])]
    assert [entry["event"] for entry in logs if "torn" in entry["event"]]


@pytest.mark.parametrize("noise", [b"\n\n", b"zz\n", b"00000000 C {}\n", b"\xff\xfe\x00\n", b" \n"])
def test_noise_between_records_swallows_none(place: Place, noise: bytes) -> None:
    crashed = place.journal()
    facts = [a_fact("msg_1"), a_fact("msg_2")]
    for fact in facts:
        crashed.complete_message(fact)
    crashed.close()
    (segment,) = place.segments()
    segment.write_bytes(noise + noise.join(segment.read_bytes().splitlines(keepends=True)) + noise)

    assert place.remaining() == list(map(recovered, facts))


def test_segments_rotate_and_the_acknowledged_are_dropped(place: Place) -> None:
    journal = place.journal()
    for number in range(100):
        journal.start_message(a_fact(f"msg_{number}"))
    full = len(place.segments())
    assert full > 5
    assert max(path.stat().st_size for path in place.segments()) < 2 * SMALL

    journal.acknowledge(a_fact(f"msg_{number}").key for number in range(100))

    assert len(place.segments()) < 3
    journal.close()
    assert list(place.path.iterdir()) == []


def test_a_segment_stays_while_one_of_its_messages_waits(place: Place) -> None:
    journal = place.journal()
    waits = a_fact("msg_waits")
    journal.start_message(waits)
    for number in range(100):
        fact = a_fact(f"msg_{number}")
        journal.start_message(fact)
        journal.acknowledge([fact.key])
    first = place.segments()[0]
    journal.close()

    assert first.exists()
    assert place.remaining() == [partial(waits)]


def test_a_message_done_long_after_it_opened_does_not_rise_again(place: Place) -> None:
    """Its opening is in a segment that stays; so must be what says that it is done."""
    journal = place.journal()
    waits, long = a_fact("msg_waits"), a_fact("msg_long")
    journal.start_message(waits)
    journal.start_message(long)
    for number in range(100):
        journal.complete_message(a_fact(f"msg_{number}"))
    journal.complete_message(long)
    journal.acknowledge([long.key, *(a_fact(f"msg_{n}").key for n in range(100))])
    journal.close()

    assert place.remaining() == [partial(waits)]


def test_nobody_else_may_read_it(place: Place) -> None:
    before = os.umask(0)
    try:
        journal = place.journal()
        for number in range(50):
            journal.start_message(a_fact(f"msg_{number}"))
    finally:
        os.umask(before)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in place.path.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
    journal.close()


async def test_flushing_returns_with_everything_on_disk(place: Place) -> None:
    journal = place.journal()
    await journal.sync()
    for number in range(50):
        journal.complete_message(a_fact(f"msg_{number}"))

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(journal.sync() for _ in range(20)))
        await journal.sync()

    assert journal.problem is None
    journal.close()


async def test_a_rotation_while_flushing_is_no_problem(place: Place) -> None:
    journal = place.journal(segment_bytes=SMALL)
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
    assert len(place.remaining()) == 300


NAMES = st.sampled_from([f"msg_{number}" for number in range(6)])
STEPS = st.lists(st.tuples(st.sampled_from(["opened", "closed", "done", "died"]), NAMES), max_size=60)


@given(steps=STEPS, segment_bytes=st.sampled_from([1, 300, 1000, 10**6]))
def test_whatever_happens_a_new_process_finds_what_is_not_done(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]], segment_bytes: int
) -> None:
    place = Place(tmp_path_factory.mktemp("journal"))
    journal = place.journal(segment_bytes)
    remaining: dict[str, UsageFact] = {}
    for step, (what, name) in enumerate(steps):
        fact = a_fact(name, output=step)
        match what:
            case "opened":
                journal.start_message(fact)
                remaining[name] = partial(fact)
            case "closed":
                journal.complete_message(fact)
                remaining[name] = recovered(fact)
            case "done":
                journal.acknowledge([fact.key])
                remaining.pop(name, None)
            case _:
                journal.close()
                assert _named(place.remaining()) == remaining
                journal = _successor(place, segment_bytes)
                remaining = {}
    journal.close()

    assert _named(place.remaining()) == remaining


def _successor(place: Place, segment_bytes: int) -> Journal:
    """Adopts and delivers everything."""
    journal = place.journal(segment_bytes)
    for fact in journal.recover():
        journal.acknowledge([fact.key])
    return journal


def _named(facts: list[UsageFact]) -> dict[str, UsageFact]:
    named: dict[str, UsageFact] = {fact.message_id: fact for fact in facts}
    assert len(named) == len(facts)
    return named
