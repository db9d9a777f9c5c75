"""The seccomp filter of commands: which system calls are refused; pure.

The refused calls allocate memory that counts for no process and no limit, or reach parts of the kernel
that no command needs. A refused call fails as if the kernel did not implement it.
"""

import errno
import platform
import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in the data that the kernel passes to the filter."""

_ALLOWED = 0x7FFF0000
_REFUSED = 0x00050000 | errno.ENOSYS
_OTHER_ABI = 0x40000000
"""On x86-64 a second set of call numbers starts here."""


class _Machine(NamedTuple):
    architecture: int
    refused: tuple[int, ...]


_NEW = (425, 447)
"""io_uring_setup, memfd_secret: the same number everywhere."""

_MACHINES = {
    # memfd_create, shmget, mq_open, userfaultfd, bpf, perf_event_open, add_key, request_key, keyctl
    "x86_64": _Machine(0xC000003E, (319, 29, 240, 323, 321, 298, 248, 249, 250, *_NEW)),
    "aarch64": _Machine(0xC00000B7, (279, 194, 180, 282, 280, 241, 217, 218, 219, *_NEW)),
}


def refusing_filter(machine: str = platform.machine()) -> bytes:
    """The filter for this machine; raises `KeyError` for one without a CLI."""
    architecture, refused = _MACHINES[machine]
    last = len(refused) + 1
    return b"".join(
        [
            _instruction(_LOAD, _ARCHITECTURE),
            # Calls of another architecture have other numbers.
            _instruction(_EQUAL, architecture, otherwise=last + 2),
            _instruction(_LOAD, _NUMBER),
            _instruction(_AT_LEAST, _OTHER_ABI, then=last),
            *(_instruction(_EQUAL, call, then=last - at) for at, call in enumerate(refused, 1)),
            _instruction(_RETURN, _ALLOWED),
            _instruction(_RETURN, _REFUSED),
        ]
    )


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """`then` and `otherwise` are how many instructions to skip."""
    return struct.pack("=HBBI", code, then, otherwise, value)
