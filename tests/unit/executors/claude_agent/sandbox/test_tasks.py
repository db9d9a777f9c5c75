"""What is read from /proc while a task ends, and after a process's first thread has ended."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.executors.claude_agent.sandbox.kernel_memory import temporary_bytes
from app.executors.claude_agent.sandbox.tasks import processes_of, threads_of, unless_ended

PROC = Path("/proc")
_WITHOUT_ITS_FIRST_THREAD = """
import ctypes, sys, threading
def rest():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    print("ended", flush=True)
    sys.stdin.read()
threading.Thread(target=rest).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def process() -> Iterator[int]:
    """A process whose first thread has ended and whose second one has not."""
    program = [sys.executable, "-c", _WITHOUT_ITS_FIRST_THREAD]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ended\n"
        yield running.pid
        running.kill()


def test_a_process_without_its_first_thread_is_read_by_another_one(process: int) -> None:
    first, second = threads_of(PROC, process)

    assert process == first
    assert process in processes_of(PROC)
    # The kernel refuses the mounts of the first one.
    with pytest.raises(OSError, match="Invalid argument"):
        (PROC / str(first) / "mountinfo").read_text()
    assert (PROC / str(second) / "mountinfo").read_text()
    assert temporary_bytes(PROC, [first], besides=[]) == 0
    assert temporary_bytes(PROC, [second], besides=[]) > 0


def test_errors_of_a_task_that_is_ending_are_ignored(process: int) -> None:
    ending = PROC / str(process)

    with unless_ended(ending):
        (ending / "mountinfo").read_text()
    with unless_ended(ending):
        raise PermissionError


def test_so_are_those_of_one_that_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as running:
        pass

    assert threads_of(PROC, running.pid) == []
    with unless_ended(PROC / str(running.pid)):
        raise PermissionError


def test_those_of_a_task_that_goes_on_are_raised(process: int) -> None:
    _, going_on = threads_of(PROC, process)

    with pytest.raises(PermissionError), unless_ended(PROC / str(going_on)):
        raise PermissionError
