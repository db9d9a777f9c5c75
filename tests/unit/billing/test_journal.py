import asyncio
import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.billing.journal import Journal, JournalFailed
from app.ids import AccountId, ApiKeyId, MessageId, RunId, RunKey, new_uuid
from app.usage import Attribution, TokenUsage, UsageFact

ACCOUNT = AccountId(UUID(int=1))
KEY = ApiKeyId(UUID(int=2))
SMALL = 4096
PATIENCE_S = 20.0


def a_fact(message: str = "msg_1", output: int = 5) -> UsageFact:
    return UsageFact(
        run=RunKey(ACCOUNT, RunId("run-1")),
        attempt=0,
        message_id=MessageId(message),
        attribution=Attribution(KEY, "claude_agents:assistant", "req-ü\n1"),
        model="claude-haiku-5-5",
        usage=TokenUsage(input_tokens=10, output_tokens=output),
        executor_type="claude_sdk",
    )


def partial(fact: UsageFact) -> UsageFact:
    return replace(fact, basis="partial", output_estimated=True)


def recovered(fact: UsageFact) -> UsageFact:
    return replace(fact, basis="recovered")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of journals."""

    path: Path

    def journal(self, segment_bytes: int = SMALL) -> Journal:
        return Journal(self.path, new_uuid(), segment_bytes=segment_bytes)

    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.journal"))

    def names(self) -> list[str]:
        return sorted(path.suffix for path in self.path.iterdir())

    def left(self) -> list[UsageFact]:
        """What the dead have left, as a new process finds it; the new one dies at once, too."""
        journal = self.journal()
        found = journal.adopt()
        journal.close()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "data" / "journal")


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


@contextmanager
def a_process(program: str, place: Place) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A process that lives as long as the body and is killed then: what it says and is told."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program, place.path], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout, process.stdin
        finally:
            process.kill()


def test_what_was_opened_is_partial_and_what_was_closed_is_recovered(place: Place) -> None:
    dead = place.journal()
    dead.opened(a_fact("msg_open"))
    dead.opened(a_fact("msg_shut", output=1))
    dead.closed(a_fact("msg_shut", output=70))
    dead.closed(a_fact("msg_whole"))
    dead.opened(a_fact("msg_done"))
    dead.closed(a_fact("msg_done"))
    dead.done([a_fact("msg_done").source_reference])
    dead.close()

    left = {fact.message_id: (fact.basis, fact.usage.output_tokens) for fact in place.left()}

    assert left == {
        "msg_open": ("partial", 5),
        "msg_shut": ("recovered", 70),
        "msg_whole": ("recovered", 5),
    }


def test_a_fact_comes_back_as_it_was_to_the_microsecond(place: Place) -> None:
    fact = replace(a_fact(), origin="subagent", parent_tool_call_id="toolu_1", attempt=3)
    dead = place.journal()
    dead.closed(fact)
    dead.close()

    assert place.left() == [recovered(fact)]


def test_a_message_known_to_be_cut_off_stays_partial(place: Place) -> None:
    fact = replace(a_fact(), basis="partial", output_estimated=False)
    dead = place.journal()
    dead.closed(fact)
    dead.close()

    assert place.left() == [fact]


def test_a_closing_corrects_the_one_before(place: Place) -> None:
    dead = place.journal()
    last = a_fact(output=99)
    dead.closed(a_fact(output=1))
    dead.closed(last)
    dead.close()

    assert place.left() == [recovered(last)]


def test_nothing_is_left_of_a_process_that_ended_in_order(place: Place) -> None:
    journal = place.journal()
    journal.opened(a_fact())
    journal.done([a_fact().source_reference])
    journal.close()

    assert list(place.path.iterdir()) == []


@pytest.mark.parametrize("lost", range(1, 400, 23))
def test_a_torn_tail_costs_the_last_record_at_most(place: Place, lost: int) -> None:
    first, second = a_fact("msg_1"), a_fact("msg_2")
    dead = place.journal()
    dead.closed(first)
    dead.closed(second)
    dead.close()
    (segment,) = place.segments()
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-lost])

    left = place.left()

    # Without its last byte, the end of the line, a record is still whole.
    assert left == ([recovered(first), recovered(second)] if lost == 1 else [recovered(first)])
    assert len(whole.splitlines()[-1]) > lost


def test_a_corrupted_line_in_the_middle_is_skipped_and_told(place: Place) -> None:
    facts = [a_fact(f"msg_{number}") for number in range(3)]
    dead = place.journal()
    for fact in facts:
        dead.closed(fact)
    dead.close()
    (segment,) = place.segments()
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"output_tokens":5', b'"output_tokens":6')
    segment.write_bytes(b"".join(lines))

    with capture_logs() as logs:
        left = place.left()

    assert left == [recovered(facts[0]), recovered(facts[2])]
    assert [entry["event"] for entry in logs if "torn" in entry["event"]]


@pytest.mark.parametrize("noise", [b"\n\n", b"zz\n", b"00000000 C {}\n", b"\xff\xfe\x00\n", b" \n"])
def test_noise_between_records_swallows_none(place: Place, noise: bytes) -> None:
    dead = place.journal()
    facts = [a_fact("msg_1"), a_fact("msg_2")]
    for fact in facts:
        dead.closed(fact)
    dead.close()
    (segment,) = place.segments()
    segment.write_bytes(noise + noise.join(segment.read_bytes().splitlines(keepends=True)) + noise)

    assert place.left() == list(map(recovered, facts))


def test_segments_rotate_and_the_acknowledged_are_dropped(place: Place) -> None:
    journal = place.journal()
    for number in range(100):
        journal.opened(a_fact(f"msg_{number}"))
    full = len(place.segments())
    assert full > 5
    assert max(path.stat().st_size for path in place.segments()) < 2 * SMALL

    journal.done(a_fact(f"msg_{number}").source_reference for number in range(100))

    assert len(place.segments()) < 3
    journal.close()
    assert list(place.path.iterdir()) == []


def test_a_segment_stays_while_one_of_its_messages_waits(place: Place) -> None:
    journal = place.journal()
    waits = a_fact("msg_waits")
    journal.opened(waits)
    for number in range(100):
        fact = a_fact(f"msg_{number}")
        journal.opened(fact)
        journal.done([fact.source_reference])
    first = place.segments()[0]
    journal.close()

    assert first.exists()
    assert place.left() == [partial(waits)]


def test_a_message_done_long_after_it_opened_does_not_rise_again(place: Place) -> None:
    """Its opening is in a segment that stays; so must be what says that it is done."""
    journal = place.journal()
    waits, long = a_fact("msg_waits"), a_fact("msg_long")
    journal.opened(waits)
    journal.opened(long)
    for number in range(100):
        journal.closed(a_fact(f"msg_{number}"))
    journal.closed(long)
    journal.done([long.source_reference, *(a_fact(f"msg_{n}").source_reference for n in range(100))])
    journal.close()

    assert place.left() == [partial(waits)]


def test_what_was_adopted_is_dropped_once_it_is_delivered(place: Place) -> None:
    dead = place.journal()
    facts = [a_fact(f"msg_{number}") for number in range(50)]
    for fact in facts:
        dead.closed(fact)
    dead.close()
    heir = place.journal()

    assert heir.adopt() == list(map(recovered, facts))
    assert heir.adopt() == []
    heir.done(fact.source_reference for fact in facts[:-1])
    assert len(place.segments()) > 5
    heir.done([facts[-1].source_reference])

    assert place.names() == [".journal", ".lock"]
    heir.close()
    assert list(place.path.iterdir()) == []


def test_what_was_adopted_and_not_delivered_is_adopted_again(place: Place) -> None:
    dead = place.journal()
    dead.closed(a_fact("msg_1"))
    dead.opened(a_fact("msg_2"))
    dead.close()

    first, second = place.left(), place.left()

    assert [fact.message_id for fact in first] == ["msg_1", "msg_2"]
    assert second == first


def test_a_living_neighbours_file_is_not_adopted(place: Place) -> None:
    living, other = place.journal(), place.journal()
    living.closed(a_fact())

    assert other.adopt() == []

    living.close()
    assert [fact.message_id for fact in other.adopt()] == ["msg_1"]
    other.close()


DYING = textwrap.dedent("""
    import sys
    from pathlib import Path
    from app.billing.journal import Journal
    from app.ids import new_uuid
    from tests.unit.billing.test_journal import a_fact

    journal = Journal(Path(sys.argv[1]), new_uuid())
    journal.opened(a_fact("msg_open"))
    journal.closed(a_fact("msg_shut"))
    print("ready", flush=True)
    sys.stdin.read()
""")


def test_a_process_lives_until_it_is_killed_and_then_it_is_inherited(place: Place) -> None:
    journal = place.journal()
    with a_process(DYING, place) as (said, _):
        assert said.readline() == b"ready\n"
        while_it_lived = journal.adopt()

    assert while_it_lived == []
    assert [(fact.message_id, fact.basis) for fact in journal.adopt()] == [
        ("msg_open", "partial"),
        ("msg_shut", "recovered"),
    ]
    journal.close()


HEIR = textwrap.dedent("""
    import sys
    from pathlib import Path
    from app.billing.journal import Journal
    from app.ids import new_uuid

    journal = Journal(Path(sys.argv[1]), new_uuid())
    print("ready", flush=True)
    sys.stdin.readline()
    found = [fact.message_id for fact in journal.adopt()]
    print("found", *found, flush=True)
    sys.stdin.read()  # both live until both have looked
""")


def test_two_heirs_do_not_both_get_it(place: Place) -> None:
    messages = {f"msg_{number}" for number in range(40)}
    for message in messages:
        dead = place.journal()
        dead.closed(a_fact(message))
        dead.close()

    with a_process(HEIR, place) as one, a_process(HEIR, place) as two:
        for said, _ in (one, two):
            assert said.readline() == b"ready\n"
        for _, told in (one, two):
            told.write(b"go\n")
            told.flush()
        adopted = [name.decode() for said, _ in (one, two) for name in _after(b"found", said)]

    assert sorted(adopted) == sorted(messages)


def _after(word: bytes, said: IO[bytes]) -> list[bytes]:
    """The rest of the line that begins with a word; what is logged comes before."""
    return next(rest for first, *rest in map(bytes.split, said) if first == word)


@pytest.mark.parametrize("room", [0, 1, 100, 300])
async def test_a_full_disk_is_told_and_forgotten_when_there_is_room(place: Place, room: int) -> None:
    journal = place.journal(segment_bytes=10**6)
    first, torn, late, after = (a_fact(f"msg_{name}") for name in ("first", "torn", "late", "after"))
    journal.closed(first)
    (segment,) = place.segments()
    size = segment.stat().st_size

    with full_at(size + room):
        journal.closed(torn)
        problem = journal.problem
        journal.probe()
        still = journal.problem
        journal.closed(late)
        assert segment.stat().st_size == size + room

    assert problem == still == os.strerror(errno.EFBIG)
    journal.probe()
    assert journal.problem is None
    journal.closed(after)
    await journal.flushed()
    journal.close()

    assert place.left() == list(map(recovered, (first, torn, late, after)))


def test_probing_a_full_disk_for_long_piles_up_nothing(place: Place) -> None:
    journal = place.journal(segment_bytes=10**6)
    with full_at(0):
        journal.closed(a_fact())
        for _ in range(100):
            journal.probe()

    journal.probe()
    (segment,) = place.segments()
    assert len(segment.read_bytes().splitlines()) == 1
    journal.close()


def test_a_process_that_dies_of_a_full_disk_leaves_what_it_wrote(place: Place) -> None:
    journal = place.journal(segment_bytes=10**6)
    journal.closed(a_fact("msg_1"))
    (segment,) = place.segments()
    with full_at(segment.stat().st_size + 50):
        journal.closed(a_fact("msg_2"))
        journal.close()

    assert [fact.message_id for fact in place.left()] == ["msg_1"]


def test_a_last_breath_writes_what_could_not_be_written(place: Place) -> None:
    journal = place.journal(segment_bytes=10**6)
    with full_at(50):
        journal.closed(a_fact())
    journal.close()

    assert [fact.message_id for fact in place.left()] == ["msg_1"]


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


def test_a_rotation_that_fails_is_told_and_loses_nothing(place: Place) -> None:
    facts = [a_fact(f"msg_{number}") for number in range(60)]
    journal = place.journal()
    for fact in facts[:30]:
        journal.closed(fact)
    with no_new_files():
        for fact in facts[30:]:
            journal.closed(fact)
        assert journal.problem == os.strerror(errno.EMFILE)
        journal.done(fact.source_reference for fact in facts[:30])
    journal.probe()
    assert journal.problem is None
    journal.close()

    assert place.left() == list(map(recovered, facts[30:]))


@pytest.mark.parametrize("where", ["a file", "below a file"])
def test_a_directory_that_cannot_be_used_is_named_by_its_setting(tmp_path: Path, where: str) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    path = tmp_path / "taken" if where == "a file" else tmp_path / "taken" / "journal"

    with pytest.raises(JournalFailed, match=r"RUNTALLY_DATA_DIR: .*(File exists|Not a directory)"):
        Journal(path, uuid4())


def test_an_unwritable_directory_is_named_by_its_setting() -> None:
    """A file system nobody may write to, even root."""
    with pytest.raises(JournalFailed, match="RUNTALLY_DATA_DIR: the receipt journal cannot be opened: "):
        Journal(Path("/proc/self/journal"), uuid4())


def test_nobody_else_may_read_it(place: Place) -> None:
    before = os.umask(0)
    try:
        journal = place.journal()
        for number in range(50):
            journal.opened(a_fact(f"msg_{number}"))
    finally:
        os.umask(before)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in place.path.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
    journal.close()


async def test_flushing_returns_with_everything_on_disk(place: Place) -> None:
    journal = place.journal()
    await journal.flushed()
    for number in range(50):
        journal.closed(a_fact(f"msg_{number}"))

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(journal.flushed() for _ in range(20)))
        await journal.flushed()

    assert journal.problem is None
    journal.close()


async def test_a_rotation_while_flushing_is_no_problem(place: Place) -> None:
    journal = place.journal(segment_bytes=SMALL)
    async with asyncio.timeout(PATIENCE_S):
        for number in range(300):
            journal.closed(a_fact(f"msg_{number}"))
            flushing = asyncio.create_task(journal.flushed())
            await asyncio.sleep(0)
            journal.closed(a_fact(f"msg_{number}"))
            await flushing

    assert journal.problem is None
    assert len(journal.adopt()) == 0
    journal.close()
    assert len(place.left()) == 300


NAMES = st.sampled_from([f"msg_{number}" for number in range(6)])
STEPS = st.lists(st.tuples(st.sampled_from(["opened", "closed", "done", "died"]), NAMES), max_size=60)


@given(steps=STEPS, segment_bytes=st.sampled_from([1, 300, 1000, 10**6]))
def test_whatever_happens_a_new_process_finds_what_is_not_done(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]], segment_bytes: int
) -> None:
    place = Place(tmp_path_factory.mktemp("journal"))
    journal = place.journal(segment_bytes)
    left: dict[str, UsageFact] = {}
    for step, (what, name) in enumerate(steps):
        fact = a_fact(name, output=step)
        match what:
            case "opened":
                journal.opened(fact)
                left[name] = partial(fact)
            case "closed":
                journal.closed(fact)
                left[name] = recovered(fact)
            case "done":
                journal.done([fact.source_reference])
                left.pop(name, None)
            case _:
                journal.close()
                assert _named(place.left()) == left
                journal = _successor(place, segment_bytes)
                left = {}
    journal.close()

    assert _named(place.left()) == left


def _successor(place: Place, segment_bytes: int) -> Journal:
    """Adopts and delivers everything."""
    journal = place.journal(segment_bytes)
    for fact in journal.adopt():
        journal.done([fact.source_reference])
    return journal


def test_an_heir_that_dies_before_it_delivered_everything_leaves_everything(place: Place) -> None:
    """A second delivery changes nothing in the database; one that never comes is money."""
    dead = place.journal()
    for number in range(10):
        dead.closed(a_fact(f"msg_{number}"))
    dead.close()
    heir = place.journal()
    found = heir.adopt()
    heir.done(fact.source_reference for fact in found[:9])
    heir.close()

    assert place.left() == found


def _named(facts: list[UsageFact]) -> dict[str, UsageFact]:
    named: dict[str, UsageFact] = {fact.message_id: fact for fact in facts}
    assert len(named) == len(facts)
    return named
