"""RunningSandbox: a running sandbox seen from the server; its workspace, and what its commands use."""

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from app.executors.claude_agent.programs import write_program
from app.executors.claude_agent.sandbox import bubblewrap
from app.executors.claude_agent.sandbox.control_groups import ControlGroup
from app.executors.claude_agent.sandbox.kernel_memory import socket_bytes, temporary_bytes
from app.executors.claude_agent.sandbox.port import Wrapping
from app.executors.claude_agent.sandbox.seccomp import refusing_filter
from app.executors.claude_agent.sandbox.tasks import GONE, processes_of, threads_of, unless_ended
from app.executors.claude_agent.tools.builtin_tools import WORKSPACE
from app.workspaces.egress.proxy import EgressProxy
from app.workspaces.mounts import WorkspaceTooLarge
from app.workspaces.records import HostTraffic
from app.workspaces.spec import HostPathRefused
from app.workspaces.workspace import Workspace

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CLI = 2
"""The CLI's process id inside the sandbox; 1 is bubblewrap, its parent."""

_CONFIG_BYTES = 256 * 1024 * 1024
"""What a CLI may add to its transcript, and keep of results too long for it."""

_SHELLS_BYTES = 64 * 1024 * 1024
"""Memory for the shells around commands; a single command reaches its own limit first."""

_RESIDENT = ("RssAnon", "RssShmem", "VmSwap")
_PROPORTIONAL = ("Pss_Anon", "Pss_Shmem", "Swap")

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


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
    """The sandbox of one run; implements the `Sandbox` port."""

    paths = bubblewrap.PATHS

    def __init__(
        self, workspace: Workspace, group: ControlGroup | None, egress: EgressProxy | None = None
    ) -> None:
        """`egress` is the proxy of a run whose commands may reach other hosts."""
        self.workspace = workspace
        self._egress = egress
        self._group = group
        """Its control group, if one is delegated to the server."""
        self._workspace_directory = self._processes = self._config = self._sockets = -1
        self._cpu_s = 0.0
        self._lock = threading.Lock()
        self._closed = False
        self.filled = False
        """Whether the workspace contains all its files."""

    def wrap(self, cli: Path, files: Mapping[Path, Path], directory: Path) -> Wrapping:
        spec, reaches_hosts = self.workspace.spec, self._egress is not None
        program = bubblewrap.command_sandbox(spec, reaches_hosts=reaches_hosts)
        commands = write_program(directory / "command_sandbox", program)
        refused, arguments = directory / "syscalls", directory / "bubblewrap_arguments"
        refused.write_bytes(refusing_filter())
        copied = {commands: bubblewrap.COMMAND_SANDBOX, refused: bubblewrap.SYSCALL_FILTER, **files}
        found = bubblewrap.bubblewrap_arguments(
            cli=cli,
            files=list(copied.values()),
            config_bytes=_CONFIG_BYTES + 2 * sum(path.stat().st_size for path in copied),
            spec=spec,
            reaches_hosts=reaches_hosts,
        )
        # On a command line the sandbox could read them.
        arguments.write_text("".join(f"{argument}\0" for argument in found), encoding="utf-8")
        return Wrapping(
            cli=bubblewrap.CLI,
            command=["bwrap", "--args", "3", "--"],
            environment={"PATH": bubblewrap.SANDBOX_PATH, "PWD": str(bubblewrap.PATHS.work)},
            files=[arguments, *copied],
            group=None if self._group is None else self._group.processes,
        )

    async def enter(self, pid: int) -> None:
        """See the port; raises `SandboxUnreachable`, `WorkspaceUnusable`."""
        await asyncio.to_thread(self._fill, pid)
        if self._egress is not None:
            await self._egress.listen(_path_of(self._sockets) / bubblewrap.EGRESS.name)

    def _fill(self, pid: int) -> None:
        with self._lock:
            if self._closed:
                # The run was cancelled meanwhile.
                raise SandboxUnreachable("its run is over")
            self._enter(pid)
            self.filled = True

    def _enter(self, pid: int) -> None:
        root = f"/proc/{_cli_of(pid)}/root"
        try:
            # Open directories stay readable when the sandbox has ended.
            self._workspace_directory = os.open(f"{root}{WORKSPACE}", _DIRECTORY)
            self._processes = os.open(f"{root}/proc", _DIRECTORY)
            self._config = os.open(f"{root}{bubblewrap.CONFIG}", _DIRECTORY)
            if self._egress is not None:
                self._sockets = os.open(f"{root}{bubblewrap.EGRESS.parent}", _DIRECTORY)
        except OSError as error:
            raise SandboxUnreachable(f"the sandbox's files: {error.strerror}") from error
        try:
            self.workspace.populate(_path_of(self._workspace_directory))
        except (HostPathRefused, WorkspaceTooLarge, OSError) as error:
            raise WorkspaceUnusable(str(error)) from error

    @property
    def config(self) -> Path:
        return _path_of(self._config)

    @property
    def traffic(self) -> Sequence[HostTraffic]:
        return () if self._egress is None else self._egress.traffic

    async def aclose(self) -> None:
        if self._egress is not None:
            await self._egress.aclose()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._group is not None:
            self._group.remove()
        with self._lock:
            for descriptor in (self._workspace_directory, self._processes, self._config, self._sockets):
                if descriptor >= 0:
                    os.close(descriptor)
            self._workspace_directory = self._processes = self._config = self._sockets = -1
            self.filled, self._closed = False, True

    def exceeded_limit(self) -> str | None:
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
        if used.temporary_bytes > bubblewrap.TEMPORARY_DIRECTORIES * spec.max_temporary_bytes:
            return "max_temporary_bytes"
        if used.memory_bytes > most_memory and self._exact_memory() > most_memory:
            return "max_memory_bytes"
        return None

    def usage(self) -> Usage:
        tasks = memory = 0
        cpu_s = 0.0
        pids = processes_of(self._directory)
        for pid in pids:
            with unless_ended(self._directory / str(pid)):
                cpu_s += self._cpu_of(pid)
                if pid > _CLI:
                    status = self._status_of(pid)
                    memory += sum(status.get(name, 0) for name in _RESIDENT) * 1024
                    tasks += status.get("Threads", 1)
        self._cpu_s = max(self._cpu_s, cpu_s)
        return Usage(tasks, memory, self._cpu_s, *self._held_by_kernel(pids))

    @property
    def _directory(self) -> Path:
        """The sandbox's /proc."""
        return _path_of(self._processes)

    def _held_by_kernel(self, pids: list[int]) -> tuple[int, int]:
        elsewhere = [os.fstat(directory).st_dev for directory in (self._workspace_directory, self._config)]
        # Each thread may have namespaces of its own.
        tasks = [
            task for pid in pids for task in ([pid] if pid <= _CLI else threads_of(self._directory, pid))
        ]
        sockets = socket_bytes(self._directory, tasks, besides=_CLI)
        return sockets, temporary_bytes(self._directory, tasks, besides=elsewhere)

    def _cpu_of(self, pid: int) -> float:
        fields = (self._directory / f"{pid}/stat").read_bytes().rpartition(b")")[2].split()
        own, of_ended = fields[11:13], fields[13:15]
        counted = of_ended if pid <= _CLI else (*own, *of_ended)
        return sum(map(int, counted)) / _TICKS_PER_S

    def _status_of(self, pid: int) -> dict[str, int]:
        """The status of a process, by a thread that still has its memory if there is one."""
        status = _fields((self._directory / f"{pid}/status").read_bytes())
        if _RESIDENT[0] not in status and status.get("Threads", 1) > 1:
            for task in threads_of(self._directory, pid):
                with suppress(*GONE):
                    status |= _fields((self._directory / f"{task}/status").read_bytes())
        return status

    def _exact_memory(self) -> int:
        pids = processes_of(self._directory)
        return sum(self._exact_memory_of(pid) for pid in pids if pid > _CLI)

    def _exact_memory_of(self, pid: int) -> int:
        for task in threads_of(self._directory, pid):
            with unless_ended(self._directory / str(task)):
                rollup = _fields((self._directory / f"{task}/smaps_rollup").read_bytes())
                return sum(rollup.get(name, 0) for name in _PROPORTIONAL) * 1024
        return 0


def _cli_of(pid: int) -> int:
    """The CLI's process id outside the sandbox; a descendant of bubblewrap's."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(*GONE):
                status = Path(f"/proc/{child.pid}/status").read_text()
                inside = next(line for line in status.splitlines() if line.startswith("NSpid:"))
                if int(inside.split()[-1]) == _CLI:
                    return child.pid
    raise SandboxUnreachable("its CLI has ended")


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
