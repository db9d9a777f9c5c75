"""Tasks of a sandbox: its processes and their threads, read from its /proc while they begin and end."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GONE = (FileNotFoundError, ProcessLookupError)

_EXITING = 0x4
"""PF_EXITING of linux/sched.h."""


def processes_of(directory: Path) -> list[int]:
    return _numbers_in(directory)


def threads_of(directory: Path, pid: int) -> list[int]:
    """The ids of a process's threads; none if it has ended.

    The first one may have ended before the others. Then the kernel shows neither the memory nor the
    namespaces of the process under its own id; /proc has them under the id of any other thread, although it
    does not list that.
    """
    with suppress(*GONE):
        return _numbers_in(directory / str(pid) / "task")
    return []


@contextmanager
def unless_ended(task: Path) -> Iterator[None]:
    """Ignore errors of reading a task that has ended.

    Of a task that is ending, the kernel refuses the namespaces with EACCES and the mounts with EINVAL. The
    same error of a task that goes on is raised.
    """
    try:
        yield
    except GONE:
        pass
    except OSError:
        if not _is_ending(task):
            raise


def _numbers_in(directory: Path) -> list[int]:
    return [int(entry.name) for entry in directory.iterdir() if entry.name.isdigit()]


def _is_ending(task: Path) -> bool:
    try:
        fields = (task / "stat").read_bytes().rpartition(b")")[2].split()
    except GONE:
        return True
    return bool(int(fields[6]) & _EXITING)
