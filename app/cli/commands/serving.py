"""`runtally serve`, `api` and `worker`: the options of the servers."""

import asyncio
import os
import signal
from collections.abc import Coroutine, Mapping
from typing import Annotated, Any

import structlog
import typer

from app.cli.processes.options import MOST_PROCESSES
from app.platform.server.imports import quick_imports
from app.platform.settings import Settings, variables_of_file, withdraw_secrets

log = structlog.get_logger(__name__)


def _processes(given: str | int) -> int:
    # Typer parses the default, too.
    text = str(given)
    if text == "auto":
        return min(_cores(), MOST_PROCESSES)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_PROCESSES:
        message = f"must be a number from 1 to {MOST_PROCESSES}, or auto"
        raise typer.BadParameter(message)
    return int(text)


def _cores() -> int:
    # macOS has no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any free port.")]
Processes = Annotated[
    int,
    typer.Option(parser=_processes, metavar="N|auto", help="Server processes; auto: one for each core."),
]


def serve(*, host: Host = "127.0.0.1", port: Port = 8000, processes: Processes = 1) -> None:
    """Serve the API and execute runs. An embedded database is migrated first."""
    _serve("serve", host, port, processes)


def api(*, host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Serve the API only: runs are executed by workers. Needs DATABASE_URL and REDIS_URL."""
    _serve("api", host, port)


def worker(*, host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Execute runs; serves health and metrics only. Needs DATABASE_URL and REDIS_URL."""
    _serve("worker", host, port)


def _serve(role: str, host: str, port: int, processes: int = 1) -> None:
    with quick_imports():
        from app.cli.logs import configure_logs

    settings, environment = Settings.load(), {**os.environ}
    name = None if processes == 1 else "supervisor"
    configure_logs(settings.log_format, settings.log_level, process=name)
    _log_unknown_variables()
    # A terminal was closed; with `nohup` the signal is ignored.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    # Child processes must not inherit secrets; server processes read them as this one has.
    withdraw_secrets(os.environ)
    asyncio.run(_server(settings, environment, role=role, host=host, port=port, processes=processes))


def _server(
    settings: Settings, environment: Mapping[str, str], *, role: str, host: str, port: int, processes: int
) -> Coroutine[Any, Any, None]:
    """What serves: the supervisor of several processes imports nothing of the server."""
    with quick_imports():
        if processes > 1:
            from app.cli.processes.supervisor import serve_processes

            return serve_processes(settings, environment, count=processes, host=host, port=port)
        from app.bootstrap.roles import Role
        from app.cli.serve import serve as run_server

        return run_server(settings, role=Role(role), host=host, port=port)


def _log_unknown_variables() -> None:
    """Warn about RUNTALLY_* variables that are no settings, in the environment and in `.env`."""
    from app.doctor.variables import misspelled

    in_file = {name.upper() for name in variables_of_file()}
    names = {name.upper() for name, value in os.environ.items() if value}
    for problem in misspelled(names, in_file):
        log.warning("settings.variable_unknown", problem=problem)
