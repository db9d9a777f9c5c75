"""The CLI that comes with the SDK's wheel, and what it says of itself."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import claude_agent_sdk
from claude_agent_sdk._cli_version import __cli_version__

from app.errors import OperatorError
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import Login, launcher, login_environment

PINNED_VERSION: str = __cli_version__
"""The version that came with the SDK."""

_PATIENCE_S = 30.0
_EXIT_S = 5.0


class CliMissing(OperatorError):
    """The installed claude-agent-sdk brings no CLI; on musl-based systems its wheels have none."""


class CliUnresponsive(OperatorError):
    """The CLI does not answer; the text is for the operator."""


@dataclass(frozen=True, slots=True)
class Cli:
    """The program that is run."""

    path: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    """Variables it gets beside those of `environment.py`: none, but of a test that has its own API."""

    async def version(self, parent: Path) -> str:
        """What it calls itself; raises `CliUnresponsive`. `parent` takes a folder meanwhile."""
        said = await self._asked("--version", parent=parent, login=Login(None, None))
        return said.partition(" ")[0].strip()

    async def login(self, parent: Path, login: Login) -> Mapping[str, Any] | None:
        """How it is logged in, None when it is not; raises `CliUnresponsive`. Costs nothing."""
        said = await self._asked("auth", "status", "--json", parent=parent, login=login)
        try:
            status: Mapping[str, Any] = json.loads(said)
        except ValueError as error:
            message = "the CLI does not say whether it is logged in"
            raise CliUnresponsive(message) from error
        return status if status.get("loggedIn") is True else None

    async def _asked(self, *arguments: str, parent: Path, login: Login) -> str:
        """Ask it what needs no conversation, started like every run's."""
        try:
            directory = await asyncio.to_thread(RunDirectory, parent)
            try:
                environment = {**login_environment(login, directory=directory.path), **self.extra}
                script = directory.write_launcher(
                    launcher(self.path, environment, pid_file=directory.pid_file),
                )
                return await _output(script, *arguments, cwd=directory.work)
            finally:
                await asyncio.to_thread(directory.remove)
        except OSError as error:
            message = f"the CLI cannot be started: {error.strerror}"
            raise CliUnresponsive(message) from error


def bundled_cli() -> Path:
    """Where the CLI is; only the one the SDK was tested with is ever run."""
    path = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    if not path.is_file():
        raise CliMissing((CliMissing.__doc__ or "").strip())
    return path


async def _output(script: Path, *arguments: str, cwd: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        script,
        *arguments,
        cwd=cwd,
        env={},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PATIENCE_S):
            said, _ = await process.communicate()
    except TimeoutError as error:
        message = f"the CLI did not answer within {_PATIENCE_S:.0f} s"
        raise CliUnresponsive(message) from error
    finally:
        # Also when we are cancelled: nobody would wait for it any more.
        if process.returncode is None:
            process.kill()
            with anyio.move_on_after(_EXIT_S, shield=True):
                await process.communicate()
    return said.decode(errors="replace")
