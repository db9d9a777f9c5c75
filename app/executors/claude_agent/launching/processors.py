"""How many processors the server may use, and how many it and its CLI processes do use."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_CONTROL_GROUP = Path("/proc/self/cgroup")


def available_processors() -> float:
    """Those this process may run on, or the part of them that its control group is limited to."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(float(count), _quota(_OWN_CONTROL_GROUP, _CONTROL_GROUPS))


def _quota(own: Path, groups: Path) -> float:
    """The limit of the control group; infinite if none is known."""
    try:
        path = own.read_text(encoding="utf-8").partition("0::/")[2].strip()
        quota, period = (groups / path / "cpu.max").read_text(encoding="utf-8").split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        # Another system, an older kernel, or "max": no limit.
        return float("inf")


class ProcessorUse:
    """The processor time of this process, the children it has waited for, and its CLI processes."""

    def __init__(self, cli_pids: Callable[[], Iterable[int]]) -> None:
        self._cli_pids = cli_pids
        self._own = psutil.Process()
        self._before = self._now()

    def since_last(self) -> float:
        """How many processors were used on average since the last call."""
        before, self._before = self._before, self._now()
        elapsed_s = self._before[0] - before[0]
        return (self._before[1] - before[1]) / elapsed_s if elapsed_s > 0 else 0.0

    def _now(self) -> tuple[float, float]:
        times = self._own.cpu_times()
        used_s = times.user + times.system + times.children_user + times.children_system
        return time.monotonic(), used_s + sum(map(_used_s, self._cli_pids()))


def _used_s(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        # It has ended, and is among the children waited for.
        return 0.0
    return times.user + times.system
