"""A process of `runtally serve --processes`: `python -m app.cli.processes.member OPTIONS`.

It tells its supervisor when it serves, and ends with it.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Thread

import typer

from app.cli.errors import explained
from app.cli.logs import configure_logs
from app.cli.processes.listener import SharedListener
from app.cli.processes.options import MemberOptions
from app.platform.metrics.exposition import Neighbours
from app.platform.server.imports import quick_imports
from app.platform.settings import Settings, withdraw_secrets


def held_lifeline(directory: str) -> socket.socket:
    """The socket to the supervisor, our standard input, which nothing that this process starts may inherit.

    When the supervisor is gone, for whatever reason, the process ends at once, so that another command can
    have the port; `directory` is removed then.
    """
    link = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - it is no path
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    Thread(target=_end_with_supervisor, args=(link, directory), daemon=True).start()
    return link


def _end_with_supervisor(link: socket.socket, directory: str) -> None:
    # It is reset if the supervisor had not read everything.
    with suppress(ConnectionResetError):
        link.recv(1)
    # The supervisor would have removed it.
    shutil.rmtree(directory, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGKILL)


with quick_imports():
    from app.cli.serve import serve_on


def main() -> None:
    """Serve as this process until a signal arrives."""
    options = MemberOptions(**json.loads(sys.argv[1]))
    link = held_lifeline(options.directory)
    try:
        with explained():
            settings = Settings.load()
            configure_logs(
                settings.log_format,
                settings.log_level,
                process=options.name,
                is_terminal=options.is_terminal,
            )
            withdraw_secrets(os.environ)
            asyncio.run(_serve(settings, options, link))
    except typer.Exit as exit_:
        sys.exit(exit_.exit_code)


async def _serve(settings: Settings, options: MemberOptions, link: socket.socket) -> None:
    scrapes = nullcontext() if options.scrapes is None else socket.socket(fileno=options.scrapes)
    with SharedListener(options.api, options.accepted, int(options.name)) as api, scrapes as metrics:
        for sock in (api, metrics):
            if sock is not None:
                sock.set_inheritable(False)
        await serve_on(
            settings,
            api,
            metrics,
            neighbours=Neighbours(options.name, Path(options.directory)),
            when_up=lambda: link.send(MemberOptions.SERVES),
        )


if __name__ == "__main__":
    main()
