"""Cli: the CLI program that comes with the SDK's wheel; its version and login status."""

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

_TIMEOUT_S = 30.0
_EXIT_S = 5.0


class CliMissing(OperatorError):
    """The installed claude-agent-sdk brings no CLI; on musl-based systems its wheels have none."""


class CliUnresponsive(OperatorError):
    """The CLI does not respond; the text is for the operator."""


@dataclass(frozen=True, slots=True)
class Cli:
    """The program that runs are executed with."""

    path: Path
    extra_env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables besides those of `environment.py`; only tests set some."""

    async def version(self, parent: Path) -> str:
        """Its version; raises `CliUnresponsive`. `parent` holds a folder meanwhile."""
        output = await self._run("--version", parent=parent, login=Login(None, None))
        return output.partition(" ")[0].strip()

    async def login_status(self, parent: Path, login: Login) -> Mapping[str, Any] | None:
        """The CLI's login status, None if not logged in; raises `CliUnresponsive`. Makes no billable call."""
        output = await self._run("auth", "status", "--json", parent=parent, login=login)
        try:
            status: Mapping[str, Any] = json.loads(output)
        except ValueError as error:
            raise CliUnresponsive("the CLI did not report whether it is logged in") from error
        return status if status.get("loggedIn") is True else None

    async def _run(self, *arguments: str, parent: Path, login: Login) -> str:
        """The output of a command, started with the same isolation as a run's CLI."""
        try:
            directory = await asyncio.to_thread(RunDirectory, parent)
            try:
                environment = {**login_environment(login, directory=directory.path), **self.extra_env}
                script = directory.write_launcher(
                    launcher(self.path, environment, pid_file=directory.pid_file),
                )
                return await _output(script, *arguments, cwd=directory.work)
            finally:
                await asyncio.to_thread(directory.remove)
        except OSError as error:
            raise CliUnresponsive(f"the CLI cannot be started: {error.strerror}") from error


def bundled_cli() -> Path:
    """The path of the CLI that comes with the SDK; no other is used."""
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
        async with asyncio.timeout(_TIMEOUT_S):
            stdout, _ = await process.communicate()
    except TimeoutError as error:
        raise CliUnresponsive(f"the CLI did not answer within {_TIMEOUT_S:.0f} s") from error
    finally:
        # Also after a cancellation: nothing else would wait for the process.
        if process.returncode is None:
            process.kill()
            with anyio.move_on_after(_EXIT_S, shield=True):
                await process.communicate()
    return stdout.decode(errors="replace")
