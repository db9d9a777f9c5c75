"""SandboxProbe: tests whether this machine can sandbox agents that read files and run commands."""

import asyncio
import os
import shlex
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import structlog

from app.executors.claude_agent.programs import PROGRAM_PATH, write_program
from app.executors.claude_agent.sandbox.bubblewrap import (
    CLI,
    COMMAND_SANDBOX,
    FIRST_FILE,
    SANDBOX_PATH,
    SYSCALL_FILTER,
    bubblewrap_arguments,
    command_sandbox,
)
from app.executors.claude_agent.sandbox.control_groups import ControlGroups
from app.executors.claude_agent.sandbox.port import SandboxUnavailable
from app.executors.claude_agent.sandbox.seccomp import refusing_filter
from app.workspaces.spec import WorkspaceSpec

log = structlog.get_logger(__name__)

_PROBE_S = 10.0
_COMMANDS = (
    f"PATH={SANDBOX_PATH}; command -v socat >/dev/null"
    " && bwrap --unshare-user --unshare-net --ro-bind / / --tmpfs /tmp --dev /dev -- true"
)
"""What the CLI's command sandbox needs, tested inside a sandbox."""

_NO_GATEWAY = "with RUNTALLY_CLAUDE_AUTH=local_session a command could read the machine's login"


class SandboxProbe:
    """Tests bubblewrap and socat; remembers success."""

    def __init__(self, *, behind_gateway: bool) -> None:
        """`behind_gateway`: no key or login is stored where a command could read it."""
        self._behind_gateway = behind_gateway
        self._works = False
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Log a problem early; graphs without native tools work without a sandbox."""
        with suppress(SandboxUnavailable):
            await self.require()

    async def require(self) -> None:
        """Raise `SandboxUnavailable` unless a sandbox, and a command sandbox inside it, can be created."""
        async with self._lock:
            # Only success is remembered: missing programs can be installed meanwhile.
            if not self._works and (problem := await self.problem()) is not None:
                log.error("sandbox.unavailable", reason=problem)
                raise SandboxUnavailable
            self._works = True

    async def problem(self) -> str | None:
        """Why native tools cannot be sandboxed, for the operator; None if they can."""
        if not self._behind_gateway:
            return _NO_GATEWAY
        try:
            return await _problem()
        except OSError as error:
            return f"its files, or /bin/sh: {error.strerror}"


def limits_in_force() -> str:
    """How the limits of commands are enforced on this machine, for the operator."""
    if ControlGroups.delegated() is not None:
        return "limits by the kernel, of all commands together by control groups"
    together = "of all commands together by looking ten times a second"
    if os.geteuid() == 0:
        return f"limits by the kernel, {together}, and so of processes: the server should not be root"
    return f"limits by the kernel, also of processes, {together}"


async def _problem() -> str | None:
    with tempfile.TemporaryDirectory(prefix="probe-") as name:
        spec = WorkspaceSpec()
        program = write_program(Path(name) / "bwrap", command_sandbox(spec))
        refused = Path(name) / "syscalls"
        refused.write_bytes(refusing_filter())
        places = [COMMAND_SANDBOX, SYSCALL_FILTER]
        arguments = bubblewrap_arguments(cli=Path("/bin/sh"), files=places, config_bytes=spec.size, spec=spec)
        given = f"{FIRST_FILE}< {shlex.quote(str(program))} {FIRST_FILE + 1}< {shlex.quote(str(refused))}"
        start = f"exec {shlex.join(['bwrap', *arguments, '--', str(CLI), '-c', _COMMANDS])}"
        try:
            # In a thread: a task that is cancelled while Python 3.11 starts a process for it may never end.
            probe = await asyncio.to_thread(
                subprocess.run,
                ["/bin/sh", "-c", f"{start} {given}"],
                env={"PATH": PROGRAM_PATH},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_PROBE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "the probe took too long"
    if probe.returncode == 0:
        return None
    return probe.stderr.decode(errors="replace").strip() or "socat is missing"
