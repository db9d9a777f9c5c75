"""What a process and its descendants use."""

import asyncio
import contextlib
import multiprocessing
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import psutil

MIB = 2**20

_QUIET_S = 0.3
_QUIET_SHARE = 0.1
"""A tree is quiet if it uses less than this share of one processor for so long."""

_QUIET_WITHIN_S = 15.0
_SAMPLE_S = 0.2


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A process and its descendants, without those of other trees."""

    root: psutil.Process
    others: tuple["ProcessTree", ...] = ()

    def __iter__(self) -> Iterator[psutil.Process]:
        """The processes that exist now."""
        excluded = {process.pid for tree in self.others for process in tree}
        yield self.root
        yield from (child for child in self.root.children(recursive=True) if child.pid not in excluded)

    def cpu_s(self) -> float:
        """CPU seconds of these processes and of those that they have waited for."""
        total = 0.0
        for each in self:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def memory_mib(self) -> float:
        """Their memory; of shared pages the proportional share."""
        return sum(map(memory_mib, self))

    async def until_quiet(self) -> None:
        """Wait until they do nothing more, for example start no processes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIET_WITHIN_S):
                used, before = self.cpu_s(), -1.0
                while used - before > _QUIET_SHARE * _QUIET_S:
                    await asyncio.sleep(_QUIET_S)
                    used, before = self.cpu_s(), used

    @asynccontextmanager
    async def peak_memory(self) -> AsyncIterator["PeakMemory"]:
        """Measure while the body is executed."""
        peak = PeakMemory(self.memory_mib())
        sampling = asyncio.create_task(self._sample(peak))
        try:
            yield peak
        finally:
            sampling.cancel()
            await asyncio.wait({sampling})

    async def _sample(self, peak: "PeakMemory") -> None:
        while True:
            peak.most_mib = max(peak.most_mib, self.memory_mib())
            await asyncio.sleep(_SAMPLE_S)


@asynccontextmanager
async def a_process_of(
    work: Callable[[Connection], None],
) -> AsyncIterator[tuple[psutil.Process, Connection]]:
    """A process that does this work until the body ends; both sides have an end of a pipe."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=work, args=(its,))
    process.start()
    try:
        yield psutil.Process(process.pid), ours
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)


@dataclass(slots=True)
class PeakMemory:
    """The memory of a tree during a period."""

    before_mib: float
    most_mib: float = field(default=0.0)


def memory_mib(process: psutil.Process) -> float:
    """The memory of one process; of shared pages the proportional share. 0 once it has ended."""
    # Of a process that ends just now there is nothing to read.
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        memory: float = process.memory_full_info().pss / MIB
        return memory
    return 0.0
