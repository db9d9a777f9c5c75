"""A process of `runtally serve --processes`: `python -m app.cli.processes.member OPTIONS`.

It tells its supervisor when it serves, and ends with it.
"""

import asyncio
import json
import os
import socket
import sys
from contextlib import nullcontext
from pathlib import Path

import typer

from app.cli.errors import explained
from app.cli.logs import configure_logs
from app.cli.processes.lifeline import held_lifeline
from app.cli.processes.listener import SharedListener
from app.cli.processes.options import MemberOptions
from app.platform.metrics.exposition import Neighbours
from app.platform.server.imports import quick_imports
from app.platform.settings import Settings, withdraw_secrets

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
