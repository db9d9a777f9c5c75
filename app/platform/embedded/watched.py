"""Programs that are stopped when the process that started them ends, even if it is killed: `watchdog.py`."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from app.platform.embedded import watchdog


def start_watched(command: Sequence[str], *, directory: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a program in this directory; returns its watchdog, which ends with it until `keep_running`."""
    config = {
        "command": command,
        "environment": environment(),
        "directory": str(directory),
        "log": str(log),
    }
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", watchdog.__file__, json.dumps(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # An explicit environment: the server's own holds secrets.
        env=environment(),
        # Ctrl-C signals every process of the terminal's group; the program must outlive the server.
        start_new_session=True,
    )


def keep_running(watched: subprocess.Popen[bytes]) -> None:
    """Let the program, which is ready, be started again when it ends."""
    if watched.stdin is not None:
        watched.stdin.write(b"\n")
        watched.stdin.flush()


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
