"""Servers and commands that are forked from a process that has imported all that they need.

Importing it takes two seconds of CPU, most of what a short story costs. The process is
`python -m tests.e2e.preloaded`: it reads orders, one a line, and writes the id of what it starts for each.
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import psutil

import app.cli.doctor
import app.cli.main
import app.cli.serve  # noqa: F401 - what the servers find imported
from tests.patience import PATIENCE_S

_ROOT = Path(__file__).parents[2]
_ORDERING = threading.Lock()


def start_preloaded(arguments: Sequence[str], environment: Mapping[str, str], *, log: Path) -> psutil.Process:
    """Start `python -m app` with these arguments and this environment; what it prints is appended to the log.

    It is not a child of this process: nobody learns its exit code, and /proc has the environment of another.
    """
    order = {"arguments": arguments, "environment": environment, "output": str(log), "errors": str(log)}
    return psutil.Process(_started(order))


def run_preloaded(
    arguments: Sequence[str], environment: Mapping[str, str], *, directory: Path
) -> subprocess.CompletedProcess[str]:
    """Run `python -m app` with these arguments in this directory to its end."""
    with tempfile.TemporaryDirectory() as name:
        output, errors, status = (Path(name, each) for each in ("output", "errors", "status"))
        order = {"arguments": arguments, "environment": environment, "directory": str(directory)}
        started = _started({**order, "output": str(output), "errors": str(errors), "status": str(status)})
        # It may have ended.
        with suppress(psutil.NoSuchProcess):
            psutil.Process(started).wait(3 * PATIENCE_S)
        return subprocess.CompletedProcess(
            arguments, int(status.read_text()), output.read_text(), errors.read_text()
        )


def _started(order: Mapping[str, Any]) -> int:
    with _ORDERING:
        program = _program()
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps(order).encode() + b"\n")
        program.stdin.flush()
        return int(program.stdout.readline())


@cache
def _program() -> subprocess.Popen[bytes]:
    """It ends with this process, which closes its input."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        # Consoles have been made by then.
        env={"PATH": os.environ["PATH"], "COLUMNS": "200"},
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _main() -> None:
    gc.freeze()
    # Servers that have ended are no zombies, which would look as if they still ran.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        if (started := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _fulfil(**json.loads(line))
        print(started, flush=True)  # noqa: T201 - it answers so


def _fulfil(*, status: str | None = None, directory: str | None = None, **program: Any) -> NoReturn:
    if directory is not None:
        os.chdir(directory)
    if status is None or (child := os.fork()) == 0:
        _execute(**program)
    # Its exit code is learned by its parent only.
    Path(status).write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    os._exit(0)


def _execute(*, arguments: list[str], environment: dict[str, str], output: str, errors: str) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for path, number in ((output, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["runtally", *arguments]
    runpy.run_module("app", run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _main()
