import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from tests.unit.billing.receipts.journals import JournalDirectory, a_fact, recovered


@contextmanager
def a_process(program: str, journals: JournalDirectory) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A process that lives as long as the body and is killed then: its output and its input."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program, journals.path], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout, process.stdin
        finally:
            process.kill()


def test_recovered_segments_are_deleted_once_acknowledged(journals: JournalDirectory) -> None:
    crashed = journals.journal()
    facts = [a_fact(f"msg_{number}") for number in range(50)]
    for fact in facts:
        crashed.complete_message(fact)
    crashed.close()
    successor = journals.journal()

    assert successor.recover() == list(map(recovered, facts))
    assert successor.recover() == []
    successor.acknowledge(fact.key for fact in facts[:-1])
    assert len(journals.segments()) > 5
    successor.acknowledge([facts[-1].key])

    assert journals.names() == [".journal", ".lock"]
    successor.close()
    assert list(journals.path.iterdir()) == []


DYING = textwrap.dedent("""
    import sys
    from pathlib import Path
    from app.billing.receipts.journal import Journal
    from app.ids import new_uuid
    from tests.unit.billing.receipts.journals import a_fact

    journal = Journal(Path(sys.argv[1]), new_uuid())
    journal.start_message(a_fact("msg_open"))
    journal.complete_message(a_fact("msg_shut"))
    print("ready", flush=True)
    sys.stdin.read()
""")


@pytest.mark.parametrize("lock", ["kept", "deleted"])
def test_a_journal_is_recovered_only_after_its_process_was_killed(
    journals: JournalDirectory, lock: str
) -> None:
    with a_process(DYING, journals) as (output, _):
        assert output.readline() == b"ready\n"
        if lock == "deleted":
            for path in journals.path.glob("*.lock"):
                path.unlink()
        journal = journals.journal()
        while_running = journal.recover()

    assert while_running == []
    found = journal.recover()
    assert [(fact.message_id, fact.basis) for fact in found] == [
        ("msg_open", "partial"),
        ("msg_shut", "recovered"),
    ]
    journal.acknowledge(fact.key for fact in found)
    journal.close()
    assert list(journals.path.iterdir()) == []


RECOVERING = textwrap.dedent("""
    import sys
    from pathlib import Path
    from app.billing.receipts.journal import Journal
    from app.ids import new_uuid

    journal = Journal(Path(sys.argv[1]), new_uuid())
    print("ready", flush=True)
    sys.stdin.readline()
    found = [fact.message_id for fact in journal.recover()]
    print("found", *found, flush=True)
    sys.stdin.read()  # both live until both have looked
""")


def test_two_processes_do_not_recover_the_same_journal(journals: JournalDirectory) -> None:
    messages = {f"msg_{number}" for number in range(40)}
    for message in messages:
        crashed = journals.journal()
        crashed.complete_message(a_fact(message))
        crashed.close()

    with a_process(RECOVERING, journals) as one, a_process(RECOVERING, journals) as two:
        for output, _ in (one, two):
            assert output.readline() == b"ready\n"
        for _, commands in (one, two):
            commands.write(b"go\n")
            commands.flush()
        recovered_names = [name.decode() for output, _ in (one, two) for name in _after(b"found", output)]

    assert sorted(recovered_names) == sorted(messages)


def _after(word: bytes, output: IO[bytes]) -> list[bytes]:
    """The rest of the line that begins with a word; what is logged comes before."""
    return next(rest for first, *rest in map(bytes.split, output) if first == word)


def test_a_recovering_process_that_dies_leaves_all_facts(journals: JournalDirectory) -> None:
    """A second delivery changes nothing in the database; one that never comes is money."""
    crashed = journals.journal()
    for number in range(10):
        crashed.complete_message(a_fact(f"msg_{number}"))
    crashed.close()
    successor = journals.journal()
    found = successor.recover()
    successor.acknowledge(fact.key for fact in found[:9])
    successor.close()

    assert journals.remaining() == found
