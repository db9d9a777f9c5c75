"""Memory that the kernel holds for the commands of a sandbox and counts for no process.

Files of temporary directories: each command has its own directories, which exist as long as any process
that it started, and an empty file takes a kilobyte. Sockets: their unread data.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from app.executors.claude_agent.sandbox.tasks import unless_ended

_FILE_BYTES = 1024
_SOCKET_BYTES = 256 * 1024
_TCP_BYTES = 4 * 1024 * 1024
"""The most one socket may hold, approximately, with the kernel's defaults."""

_COUNTS = re.compile(r"^sockets: used (\d+)", re.MULTILINE), re.compile(r"^TCP: inuse (\d+)", re.MULTILINE)


def temporary_bytes(directory: Path, tasks: Iterable[int], *, besides: Collection[int]) -> int:
    """The size of the files in memory that these threads can see.

    `directory` is the sandbox's /proc; `besides` are devices that are counted elsewhere.
    """
    held, seen = 0, set(besides)
    for task in _one_of_each(directory, tasks, "mnt"):
        for place in _in_memory(task):
            with unless_ended(task):
                if (device := place.stat().st_dev) not in seen:
                    seen.add(device)
                    system = os.statvfs(place)
                    held += (system.f_blocks - system.f_bfree) * system.f_frsize
                    held += (system.f_files - system.f_ffree) * _FILE_BYTES
    return held


def socket_bytes(directory: Path, tasks: Iterable[int], *, besides: int) -> int:
    """The most the sockets of these threads may hold, without those in the network of `besides`.

    0 if `besides` has ended.
    """
    held = 0
    with unless_ended(directory / str(besides)):
        shared = (directory / f"{besides}/ns/net").stat().st_ino
        for task in _one_of_each(directory, tasks, "net", besides={shared}):
            held += _socket_bytes(task)
    return held


def _socket_bytes(task: Path) -> int:
    with unless_ended(task):
        text = (task / "net/sockstat").read_text(encoding="ascii")
        sockets, tcp = (int(found[1]) if (found := kind.search(text)) else 0 for kind in _COUNTS)
        return sockets * _SOCKET_BYTES + tcp * _TCP_BYTES
    return 0


def _one_of_each(
    directory: Path, tasks: Iterable[int], kind: str, besides: Collection[int] = ()
) -> Iterator[Path]:
    """One thread in each namespace of a kind."""
    seen = set(besides)
    for number in tasks:
        task = directory / str(number)
        with unless_ended(task):
            if (namespace := (task / "ns" / kind).stat().st_ino) not in seen:
                seen.add(namespace)
                yield task


def _in_memory(task: Path) -> Iterator[Path]:
    """The mount points of a thread's file systems in memory."""
    with unless_ended(task):
        for line in (task / "mountinfo").read_text(errors="replace").splitlines():
            mount, _, system = line.partition(" - ")
            if system.startswith("tmpfs "):
                yield task / f"root{mount.split()[4]}"
