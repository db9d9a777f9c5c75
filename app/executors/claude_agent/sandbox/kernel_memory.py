"""Memory that the kernel holds for the commands of a sandbox and counts for no process.

Files of temporary directories: each command has its own directories, which exist as long as any process
that it started, and an empty file takes a kilobyte. Sockets: their unread data.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_FILE_BYTES = 1024
_SOCKET_BYTES = 256 * 1024
_TCP_BYTES = 4 * 1024 * 1024
"""The most one socket may hold, approximately, with the kernel's defaults."""

_COUNTS = re.compile(r"^sockets: used (\d+)", re.MULTILINE), re.compile(r"^TCP: inuse (\d+)", re.MULTILINE)
_GONE = (FileNotFoundError, ProcessLookupError)


def temporary_bytes(processes: Path, pids: Iterable[int], *, besides: Collection[int]) -> int:
    """The size of the files in memory that these processes can see.

    `processes` is the sandbox's /proc; `besides` are devices that are counted elsewhere.
    """
    held, seen = 0, set(besides)
    for process in _one_of_each(processes, pids, "mnt"):
        for place in _in_memory(process):
            with suppress(*_GONE):
                if (device := place.stat().st_dev) not in seen:
                    seen.add(device)
                    system = os.statvfs(place)
                    held += (system.f_blocks - system.f_bfree) * system.f_frsize
                    held += (system.f_files - system.f_ffree) * _FILE_BYTES
    return held


def socket_bytes(processes: Path, pids: Iterable[int], *, besides: int) -> int:
    """The most the sockets of these processes may hold, without those in the network of `besides`."""
    held = 0
    shared = (processes / f"{besides}/ns/net").stat().st_ino
    for process in _one_of_each(processes, pids, "net", besides={shared}):
        with suppress(*_GONE):
            text = (process / "net/sockstat").read_text(encoding="ascii")
            sockets, tcp = (int(found[1]) if (found := kind.search(text)) else 0 for kind in _COUNTS)
            held += sockets * _SOCKET_BYTES + tcp * _TCP_BYTES
    return held


def _one_of_each(
    processes: Path, pids: Iterable[int], kind: str, besides: Collection[int] = ()
) -> Iterator[Path]:
    """One process of each namespace of a kind."""
    seen = set(besides)
    for pid in pids:
        process = processes / str(pid)
        with suppress(*_GONE):
            if (namespace := (process / "ns" / kind).stat().st_ino) not in seen:
                seen.add(namespace)
                yield process


def _in_memory(process: Path) -> Iterator[Path]:
    """The mount points of a process's file systems in memory."""
    with suppress(*_GONE):
        for line in (process / "mountinfo").read_text(errors="replace").splitlines():
            mount, _, system = line.partition(" - ")
            if system.startswith("tmpfs "):
                yield process / f"root{mount.split()[4]}"
