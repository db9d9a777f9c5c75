"""ControlGroups: one control group per sandbox, if a subtree is delegated to the server.

The kernel then limits all processes of a sandbox together, even if the server is root. systemd delegates
with `Delegate=yes` and `DelegateSubgroup=`; containers rarely do.
"""

import os
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from app.executors.claude_agent.sandbox.bubblewrap import CLI_TASKS, TEMPORARY_DIRECTORIES
from app.workspaces.spec import WorkspaceSpec

log = structlog.get_logger(__name__)

_PREFIX = "sandbox-"
_CLI_BYTES = 2 * 1024**3
"""Memory for the CLI itself and its transcript."""

_REMOVAL_S = 2.0
_ABANDONED_S = 60.0
"""A younger empty group may be joined by a process at any moment."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The control group of one sandbox."""

    path: Path

    @property
    def processes(self) -> Path:
        """The file to which a process writes 0 to join the group with all its children."""
        return self.path / "cgroup.procs"

    def remove(self) -> None:
        """Kill the remaining processes and remove the group."""
        deadline = time.monotonic() + _REMOVAL_S
        while True:
            try:
                (self.path / "cgroup.kill").write_text("1")
                self.path.rmdir()
            except OSError as error:
                # Its processes take a moment to die.
                if time.monotonic() > deadline:
                    log.warning("control_group.remove_failed", reason=error.strerror)
                    return
                time.sleep(0.02)
            else:
                return


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The control groups below the one that is delegated to this process."""

    parent: Path

    @classmethod
    def delegated(
        cls, *, own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
    ) -> Self | None:
        """The groups that this process may use, after a test; None if there are none."""
        if (parent := _parent(own, root)) is None:
            return None
        groups = cls(parent)
        try:
            groups._prepare()
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("control_group.unusable", reason=str(error))
            return None
        return groups

    def create(self, spec: WorkspaceSpec) -> ControlGroup:
        """Create a group for a sandbox with these limits; raises `OSError`."""
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self.parent))
        in_memory = spec.size + TEMPORARY_DIRECTORIES * spec.max_temporary_bytes
        (path / "memory.max").write_text(str(spec.max_memory_bytes + in_memory + _CLI_BYTES))
        swap = path / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")
        (path / "pids.max").write_text(str(spec.max_processes + CLI_TASKS))
        return ControlGroup(path)

    def _sweep(self) -> None:
        """Remove groups that a killed server left; a group in use cannot be removed."""
        for left in self.parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED_S:
                    left.rmdir()

    def _prepare(self) -> None:
        self._sweep()
        (self.parent / "cgroup.subtree_control").write_text("+memory +pids")
        group = self.create(WorkspaceSpec())
        try:
            join = ["/bin/sh", "-c", 'echo 0 > "$0"', str(group.processes)]
            subprocess.run(join, check=True, capture_output=True, env={})  # noqa: S603 - no shell's input
        finally:
            group.remove()


def _parent(own: Path, root: Path) -> Path | None:
    """The parent of our own group, if it is delegated to us and has the controllers we need."""
    try:
        path = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
        parent = (root / path.lstrip("/")).parent
        controllers = (parent / "cgroup.controllers").read_text().split()
        if path == "/" or not _is_delegated(parent) or not {"memory", "pids"} <= set(controllers):
            return None
    except (OSError, StopIteration):
        return None
    return parent


def _is_delegated(group: Path) -> bool:
    if os.geteuid() != 0:
        return group.stat().st_uid == os.geteuid()
    # Root may write to every group; systemd marks the delegated ones.
    return os.getxattr(group, "user.delegate") == b"1"
