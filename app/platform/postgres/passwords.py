"""Passwords of the database that rotate: read anew for new connections."""

import asyncio
import math
import time
from pathlib import Path
from typing import Protocol

import anyio

from app.errors import OperatorError
from app.platform.secret_files import read_secret, split_command

_COMMAND_S = 10.0
_FRESH_S = 60.0
"""Tokens of clouds are valid for 15 minutes and more. Without that, each connection of a pool would ask."""


class PasswordNotAvailable(OperatorError):
    """There is no password; the text names the variable and the reason, without what a command printed."""


class PasswordSource(Protocol):
    """What has the password of the database."""

    async def read(self, *, refused: str | None) -> str:
        """The password; if there is another, not the one that was refused. Raises `PasswordNotAvailable`."""
        ...


class PasswordFile:
    """The file of DATABASE_PASSWORD_FILE."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, *, refused: str | None) -> str:  # noqa: ARG002
        """See the protocol; it is read each time."""
        try:
            return await asyncio.to_thread(read_secret, self._path)
        except ValueError as error:
            raise PasswordNotAvailable(f"DATABASE_PASSWORD_FILE: {error}.") from None


class PasswordCommand:
    """The command of DATABASE_PASSWORD_COMMAND, which prints the password. No shell reads it."""

    def __init__(self, command: str) -> None:
        self._command = split_command(command)
        self._one_at_a_time = asyncio.Lock()
        self._password = ""
        self._printed_at = -math.inf

    async def read(self, *, refused: str | None) -> str:
        """See the protocol; what was printed is used for a minute."""
        asked_at = time.monotonic()
        async with self._one_at_a_time:
            # What was printed since then is used, and so is what is not the password that was refused.
            oldest = asked_at if self._password == refused else asked_at - _FRESH_S
            if self._printed_at < oldest:
                self._password = await self._run()
                self._printed_at = time.monotonic()
            return self._password

    async def _run(self) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise _not_available(f"cannot be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(_COMMAND_S):
                printed, _ = await process.communicate()
        except TimeoutError:
            raise _not_available(f"did not end within {_COMMAND_S:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                with anyio.CancelScope(shield=True):
                    await process.wait()
        if process.returncode:
            raise _not_available(f"ended with status {process.returncode}")
        if not (password := printed.decode(errors="replace").rstrip("\r\n")):
            raise _not_available("printed nothing")
        return password


def _not_available(problem: str) -> PasswordNotAvailable:
    return PasswordNotAvailable(
        f"DATABASE_PASSWORD_COMMAND {problem}; run it as the server's user, without a shell."
    )
