"""Servers that are forked from a process that has imported all that they need.

Importing it takes a server two seconds of CPU, most of what a short story costs. The process is
`python -m tests.e2e.preloaded`: it reads orders, one a line, and writes the id of each server that it starts.
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

import psutil

import app.cli.main
import app.cli.serve  # noqa: F401 - what the servers find imported

_ROOT = Path(__file__).parents[2]
_ORDERING = threading.Lock()


def start_preloaded(arguments: Sequence[str], environment: Mapping[str, str], *, log: Path) -> psutil.Process:
    """Start `python -m app` with these arguments and this environment; what it prints is appended to the log.

    It is not a child of this process: nobody learns its exit code, and /proc has the environment of another.
    """
    order = {"arguments": arguments, "environment": environment, "log": str(log)}
    with _ORDERING:
        program = _program()
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps(order).encode() + b"\n")
        program.stdin.flush()
        return psutil.Process(int(program.stdout.readline()))


@cache
def _program() -> subprocess.Popen[bytes]:
    """It ends with this process, which closes its input."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        env={"PATH": os.environ["PATH"]},
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _main() -> None:
    gc.freeze()
    # Servers that have ended are no zombies, which would look as if they still ran.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        if (server := os.fork()) == 0:
            _serve(**json.loads(line))
        print(server, flush=True)  # noqa: T201 - it answers so


def _serve(*, arguments: list[str], environment: dict[str, str], log: str) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (written, 1), (written, 2)):
        os.dup2(descriptor, number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["runtally", *arguments]
    runpy.run_module("app", run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _main()
