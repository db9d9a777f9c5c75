"""Whether this machine can confine an agent that reads files and runs commands."""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

import structlog

from app.errors import Unavailable
from app.executors.claude_agent.environment import PROGRAM_PATH
from app.executors.claude_agent.jail import CLI, jail

log = structlog.get_logger(__name__)

_PROBE_S = 10.0
_COMMANDS = "command -v socat >/dev/null && bwrap --unshare-user --unshare-net --ro-bind / / true"
"""What the CLI's sandbox for commands needs, tried where it will need it: inside the jail."""

_NO_GATEWAY = "with RUNTALLY_CLAUDE_AUTH=local_session a command could read the machine's login"


class SandboxUnavailable(Unavailable):
    """This graph's tools run in a sandbox only, and this server has none that works."""

    code = "sandbox_unavailable"


class Sandbox:
    """Bubblewrap and socat, tried out."""

    def __init__(self, *, behind_gateway: bool) -> None:
        """`behind_gateway`: no key or login is where a command could read it."""
        self._behind_gateway = behind_gateway
        self._works = False
        self._lock = asyncio.Lock()

    async def look(self) -> None:
        """Let the operator know early; graphs without native tools do not need it."""
        with suppress(SandboxUnavailable):
            await self.require()

    async def require(self) -> None:
        """Raise `SandboxUnavailable` unless a jail, and a sandbox inside it, can be made."""
        async with self._lock:
            # Only success is remembered: what is missing can be installed meanwhile.
            if not self._works and (problem := await self.problem()) is not None:
                log.error("there is no sandbox for native tools", reason=problem)
                raise SandboxUnavailable
            self._works = True

    async def problem(self) -> str | None:
        """Why native tools cannot be confined, in words for the operator; None when they can."""
        return await _problem() if self._behind_gateway else _NO_GATEWAY


async def _problem() -> str | None:
    with tempfile.TemporaryDirectory(prefix="probe-") as name:
        directory = Path(name)
        prompt = directory / "prompt"
        prompt.touch()
        arguments = jail(cli=Path("/bin/sh"), config=directory, system_prompt=prompt, workspace=directory)
        try:
            probe = await asyncio.create_subprocess_exec(
                *("bwrap", *arguments, "--", str(CLI), "-c", _COMMANDS),
                env={"PATH": PROGRAM_PATH},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return f"bwrap: {error.strerror}"
        try:
            async with asyncio.timeout(_PROBE_S):
                _, stderr = await probe.communicate()
        except TimeoutError:
            probe.kill()
            await probe.wait()
            return "the probe took too long"
    return None if probe.returncode == 0 else stderr.decode(errors="replace").strip() or "socat is missing"
