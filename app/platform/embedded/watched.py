"""Programs that are stopped when the process that started them ends, even if it is killed: `watchdog.py`."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Thread

import structlog

from app.platform.embedded import watchdog

log = structlog.get_logger(__name__)


def start_watched(
    name: str, command: Sequence[str], *, directory: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Start a program in this directory; returns its watchdog, which ends with it until `keep_running`.

    That the program was started again, or that its watchdog was killed, is logged under this name.
    """
    config = {
        "command": command,
        "environment": environment(),
        "directory": str(directory),
        "log": str(log),
    }
    watched = subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", watchdog.__file__, json.dumps(config)],
        # What cannot be written is not kept to be written again.
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # An explicit environment: the server's own holds secrets.
        env=environment(),
        # Ctrl-C signals every process of the terminal's group; the program must outlive the server.
        start_new_session=True,
    )
    Thread(target=_log_what_happens, args=(name, watched), daemon=True).start()
    return watched


def _log_what_happens(name: str, watched: subprocess.Popen[bytes]) -> None:
    with watched.stdout or nullcontext(()) as statuses:
        for status in statuses:
            log.error("embedded.restarted", name=name, status=int(status))
    if watched.wait() < 0:
        log.critical("embedded.unwatched", name=name)


def keep_running(watched: subprocess.Popen[bytes]) -> bool:
    """Let the program, which is ready, be started again when it ends; False if it has ended meanwhile."""
    if watched.stdin is not None:
        try:
            watched.stdin.write(b"\n")
        except BrokenPipeError:
            return False
    return True


def stop_watched(watched: subprocess.Popen[bytes]) -> None:
    """Stop the program, and wait until it has ended."""
    if watched.stdin is not None:
        watched.stdin.close()
    watched.wait()


def environment() -> dict[str, str]:
    """The whole environment of an embedded program."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def reason_of(output: str) -> str:
    """The line of a program's output that says why it has not started."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    words = ("FATAL:", "PANIC:", "error:", "Failed", "Fatal")
    fatal = [line for line in lines if any(word in line for word in words)]
    return (fatal or lines or ["it wrote no reason"])[-1][:300]
