"""DemoServer: the demo's server. It is a process of its own, because the demo kills it.

This module is also the program of that process.
"""

import asyncio
import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from app.cli.logs import configure_logs
from app.cli.serve import served
from app.errors import OperatorError
from app.platform.settings import Settings, withdraw_secrets

GRAPHS = Path(__file__).parent / "graphs"
TOOLS = "app.cli.demo.tools"

_TICK_S = 0.05
_STOP_S = 20
"""Longer than runs and connections have to end."""


class DemoServerFailed(OperatorError):
    """The server of the demo has ended; its log has the reason."""


@dataclass(slots=True)
class DemoServer:
    """The process that serves on a socket of the demo, which stays open when the process is killed.

    So clients that reconnect wait for the next process instead of being refused.
    """

    sock: socket.socket
    options: Mapping[str, str]
    """What replaces the settings of the environment: see `_settings`."""
    log: Path
    _process: asyncio.subprocess.Process | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start the process; it answers a moment later."""
        descriptor = self.sock.fileno()
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", __name__, str(descriptor)),
                # What this process can import, and nothing else of the directory it was started in.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[descriptor],
                # Ctrl-C is for the demo, which stops the server in order.
                start_new_session=True,
            )
        if (options := self._process.stdin) is not None:
            options.write(json.dumps(self.options).encode() + b"\n")
            await options.drain()

    async def wait_ended(self) -> None:
        """Wait until the process ends by itself, and raise `DemoServerFailed`."""
        ended = None
        while ended is None or ended is not self._process:
            ended = self._process
            await (asyncio.sleep(_TICK_S) if ended is None else ended.wait())
        raise DemoServerFailed(f"The server of the demo has ended unexpectedly; its log is {self.log}.")

    async def kill(self) -> int:
        """Kill the process, as the kernel does when memory is used up; returns its id."""
        process, self._process = self._process, None
        if process is None:
            raise DemoServerFailed("The server of the demo is not running.")
        process.kill()
        await process.wait()
        return process.pid

    async def stop(self) -> None:
        """Let the process end in order."""
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_S)
        except TimeoutError:
            await self.kill()


async def _serve(descriptor: int) -> None:
    """Serve until the demo closes the pipe, or has died."""
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    settings = _settings(json.loads(await commands.readline()))
    withdraw_secrets(os.environ)
    with socket.socket(fileno=descriptor) as sock:
        async with served(settings, sock):
            await commands.read()


def _settings(options: Mapping[str, str]) -> Settings:
    """The operator's settings with a simulated model, another database, and the demo's graphs and tools."""
    settings = Settings.load()
    directory = Path(options["directory"])
    changed: dict[str, Any] = {
        "database_url": None,
        "redis_url": None,
        "temporal_address": None,
        "data_dir": directory,
        "claude_auth": "api_key",
        "anthropic_api_key": SecretStr("simulated"),
        "anthropic_base_url": options["model_url"],
        "bootstrap_key": SecretStr(options["api_key"]),
        "markup": Decimal(1),
        "graphs_dir": _graphs(directory / "graphs", settings.graphs_dir),
        "tools": (*settings.tools, TOOLS),
    }
    return settings.model_copy(update=changed)


def _graphs(directory: Path, own: Path | None) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for source in (own, GRAPHS):
        for graph in source.glob("*.md") if source is not None else ():
            shutil.copy(graph, directory)
    return directory


if __name__ == "__main__":
    configure_logs()
    asyncio.run(_serve(int(sys.argv[1])))
