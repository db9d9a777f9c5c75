"""MemoryCeiling: refuses work while this process uses too much memory."""

import asyncio
import ctypes
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import structlog

from app.errors import Unavailable
from app.platform.background import forever

log = structlog.get_logger(__name__)

SAMPLE_S = 0.25
"""How often `watch` measures; `require_room` measures at each call."""

RETRY_AFTER_S = 5
_SHARE_OF_THE_MACHINE = 0.5
"""The rest is for agent processes, the embedded database and the system."""
_RELEASE_FROM = 0.75
"""The share of the ceiling from which freed memory is returned to the system."""
_RELEASE_EVERY_S = 2.0
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Overloaded(Unavailable):
    """This server has no memory for more work; try again later."""

    code = "overloaded"


class MemoryCeiling:
    """Refuses new work while this process uses more than `max_bytes`; active work continues."""

    def __init__(
        self, max_bytes: int | None = None, *, resident_bytes: Callable[[], int] | None = None
    ) -> None:
        """`max_bytes`: by default half of the machine's or container's memory. `resident_bytes` measures."""
        self.max_bytes = max_bytes or default_ceiling()
        self._measure = resident_bytes or _resident_bytes()
        self._last_release = 0.0
        self._exceeded = False

    def resident_bytes(self) -> int:
        return self._measure()

    def require_room(self, more_bytes: int = 0) -> None:
        """Raise `Overloaded` unless this process may use so many more bytes."""
        if self._measure() + more_bytes > self.max_bytes:
            raise Overloaded(retry_after_s=RETRY_AFTER_S)

    async def ping(self) -> None:
        """Raise `Overloaded` while no work is accepted."""
        self.require_room()

    async def watch(self) -> None:
        """Return freed memory before the ceiling is reached, and log when it is crossed; until cancelled."""
        await forever(self._sample, SAMPLE_S, name="memory.sample")

    async def _sample(self) -> None:
        resident_bytes = self._measure()
        if (resident_bytes > self.max_bytes) is not self._exceeded:
            self._exceeded = not self._exceeded
            write_log, event = (log.error, "exceeded") if self._exceeded else (log.info, "cleared")
            write_log(f"memory.ceiling_{event}", resident_bytes=resident_bytes, max_bytes=self.max_bytes)
        if resident_bytes > self.max_bytes * _RELEASE_FROM:
            await self._release()

    async def _release(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_release < _RELEASE_EVERY_S:
            return
        self._last_release = now
        # The allocator keeps freed memory, which would count as used.
        if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
            await asyncio.to_thread(trim, 0)


def default_ceiling() -> int:
    """What server processes may use of this machine or container, in bytes."""
    return round(memory_limit() * _SHARE_OF_THE_MACHINE)


def memory_limit() -> int:
    """The memory of this machine or the limit of this container, in bytes."""
    limits = [psutil.virtual_memory().total]
    for name in _CGROUP_LIMITS:
        path = Path(name)
        if path.is_file() and (text := path.read_text(encoding="ascii").strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def _resident_bytes() -> Callable[[], int]:
    process, measured = psutil.Process(), 0

    def measure() -> int:
        nonlocal measured
        # While it can open no file, what was measured last counts.
        with suppress(OSError):
            measured = process.memory_info().rss
        return measured

    return measure
