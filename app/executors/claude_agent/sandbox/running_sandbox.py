"""RunningSandbox: a running sandbox seen from the server; its workspace, and what its commands use."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from app.executors.claude_agent.sandbox.bubblewrap import CONFIG, TEMPORARY_DIRECTORIES
from app.executors.claude_agent.sandbox.control_groups import ControlGroup
from app.executors.claude_agent.sandbox.kernel_memory import socket_bytes, temporary_bytes
from app.executors.claude_agent.tools.builtin_tools import WORKSPACE
from app.workspaces.mounts import WorkspaceTooLarge
from app.workspaces.spec import HostPathRefused
from app.workspaces.workspace import Workspace

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CLI = 2
"""The CLI's process id inside the sandbox; 1 is bubblewrap, its parent."""

_SHELLS_BYTES = 64 * 1024 * 1024
"""Memory for the shells around commands; a single command reaches its own limit first."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError)


class SandboxUnreachable(Exception):
    """A sandbox cannot be inspected; the text is for the operator."""


class WorkspaceUnusable(Exception):
    """A workspace could not be filled; the text is for the operator."""


class Usage(NamedTuple):
    """What the commands of a sandbox use at one moment."""

    tasks: int
    """Processes and threads of commands."""
    memory_bytes: int
    """Without files. Shared memory counts once per process."""
    cpu_s: float
    """Processor time of commands, including ended ones."""
    socket_bytes: int
    temporary_bytes: int
    """Size of files outside the workspace."""


class RunningSandbox:
    """The sandbox of one run."""

    def __init__(self, workspace: Workspace, group: ControlGroup | None) -> None:
        self.workspace = workspace
        self.group = group
        """Its control group, if one is delegated to the server."""
        self._workspace_directory = self._processes = self._config = -1
        self._cpu_s = 0.0
        self._lock = threading.Lock()
        self._closed = False
        self.filled = False
        """Whether the workspace contains all its files."""

    def enter(self, pid: int) -> None:
        """Fill the workspace of the sandbox with this process id; its CLI is up and has got no prompt.

        Raises `SandboxUnreachable`, `WorkspaceUnusable`.
        """
        with self._lock:
            if self._closed:
                # The run was cancelled meanwhile.
                message = "its run is over"
                raise SandboxUnreachable(message)
            self._enter(pid)
            self.filled = True

    def _enter(self, pid: int) -> None:
        root = f"/proc/{_cli_of(pid)}/root"
        try:
            # Open directories stay readable when the sandbox has ended.
            self._workspace_directory = os.open(f"{root}{WORKSPACE}", _DIRECTORY)
            self._processes = os.open(f"{root}/proc", _DIRECTORY)
            self._config = os.open(f"{root}{CONFIG}", _DIRECTORY)
        except OSError as error:
            message = f"the sandbox's files: {error.strerror}"
            raise SandboxUnreachable(message) from error
        try:
            self.workspace.populate(_path_of(self._workspace_directory))
        except (HostPathRefused, WorkspaceTooLarge, OSError) as error:
            raise WorkspaceUnusable(str(error)) from error

    @property
    def config(self) -> Path:
        """The path of the CLI's configuration and transcripts, from outside the sandbox."""
        return _path_of(self._config)

    def close(self) -> None:
        """Release it after its processes have ended; the contents of the workspace are lost."""
        if self.group is not None:
            self.group.remove()
        with self._lock:
            for descriptor in (self._workspace_directory, self._processes, self._config):
                if descriptor >= 0:
                    os.close(descriptor)
            self._workspace_directory = self._processes = self._config = -1
            self.filled, self._closed = False, True

    def exceeded_limit(self) -> str | None:
        """The limit that all commands together exceed; None if none."""
        if not self.filled:
            return None
        with self._lock:
            return None if self._closed else self._exceeded_limit()

    def _exceeded_limit(self) -> str | None:
        spec, used = self.workspace.spec, self.usage()
        most_memory = spec.max_memory_bytes + _SHELLS_BYTES - used.socket_bytes
        if self.workspace.exceeds_file_limit():
            return "max_files"
        if used.tasks > spec.max_processes:
            return "max_processes"
        if used.cpu_s > spec.max_cpu_s:
            return "max_cpu_s"
        if used.temporary_bytes > TEMPORARY_DIRECTORIES * spec.max_temporary_bytes:
            return "max_temporary_bytes"
        if used.memory_bytes > most_memory and self._exact_memory() > most_memory:
            return "max_memory_bytes"
        return None

    def usage(self) -> Usage:
        """The current usage."""
        tasks = memory = 0
        cpu_s = 0.0
        pids = self._pids()
        for pid in pids:
            with suppress(*_GONE):
                cpu_s += self._cpu_of(pid)
                if pid > _CLI:
                    status = _fields(self._read(f"{pid}/status"))
                    memory += sum(status.get(name, 0) for name in ("RssAnon", "RssShmem", "VmSwap")) * 1024
                    tasks += status.get("Threads", 1)
        self._cpu_s = max(self._cpu_s, cpu_s)
        return Usage(tasks, memory, self._cpu_s, *self._held_by_kernel(pids))

    def _held_by_kernel(self, pids: list[int]) -> tuple[int, int]:
        processes = _path_of(self._processes)
        elsewhere = [os.fstat(directory).st_dev for directory in (self._workspace_directory, self._config)]
        try:
            sockets = socket_bytes(processes, pids, besides=_CLI)
        except _GONE:
            # The CLI has ended, and its child processes end with it.
            return 0, 0
        return sockets, temporary_bytes(processes, pids, besides=elsewhere)

    def _pids(self) -> list[int]:
        with os.scandir(self._processes) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]

    def _cpu_of(self, pid: int) -> float:
        fields = self._read(f"{pid}/stat").rpartition(b")")[2].split()
        own, of_ended = fields[11:13], fields[13:15]
        counted = of_ended if pid <= _CLI else (*own, *of_ended)
        return sum(map(int, counted)) / _TICKS_PER_S

    def _exact_memory(self) -> int:
        names = ("Pss_Anon", "Pss_Shmem", "Swap")
        total = 0
        for pid in filter(lambda pid: pid > _CLI, self._pids()):
            with suppress(*_GONE):
                rollup = _fields(self._read(f"{pid}/smaps_rollup"))
                total += sum(rollup.get(name, 0) for name in names) * 1024
        return total

    def _read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        with os.fdopen(descriptor, "rb") as file:
            return file.read()


def _cli_of(pid: int) -> int:
    """The CLI's process id outside the sandbox; a descendant of bubblewrap's."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(*_GONE):
                status = Path(f"/proc/{child.pid}/status").read_text()
                inside = next(line for line in status.splitlines() if line.startswith("NSpid:"))
                if int(inside.split()[-1]) == _CLI:
                    return child.pid
    message = "its CLI has ended"
    raise SandboxUnreachable(message)


def _path_of(descriptor: int) -> Path:
    # Not /proc/self: the path must also work for programs that we start.
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def _fields(text: bytes) -> dict[str, int]:
    """Name and number of each such line in a file of /proc."""
    found = {}
    for line in text.decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        number = value.split()[:1]
        if number and number[0].isdigit():
            found[name] = int(number[0])
    return found
