"""Watchdog process that owns PostgreSQL or Valkey: `python -I watchdog.py CONFIG`.

Standard input is a pipe from the server. When it closes, for whatever reason, the program is stopped.
Once the server has written to it, because the program is ready, a program that ends is started again, and
its status is a line of standard output; before that, the watchdog ends with it. Uses only the standard
library, so that it starts quickly.
"""

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

FAST_STOP_S = 30
PAUSE_S = 1.0
"""Before a program that has ended is started again: what it had started may not have ended yet."""


def main() -> int:
    """Start the program, keep it running until the pipe closes, stop it."""
    config = json.loads(sys.argv[1])
    ended = _set_signals()
    program, is_kept = _start(config), False
    while True:
        pause_s = None if program.poll() is None else PAUSE_S
        if pause_s is not None and not is_kept:
            return program.returncode
        readable, _, _ = select.select([sys.stdin, ended], [], [], pause_s)
        if ended in readable:
            os.read(ended, 64)
        if sys.stdin in readable:
            if not os.read(sys.stdin.fileno(), 1):
                return _stop(program)
            is_kept = True
        if not readable:
            status = program.returncode
            # Of a full disk: until there is room for its log.
            with suppress(OSError):
                program = _start(config)
                os.write(sys.stdout.fileno(), b"%d\n" % status)


def _set_signals() -> int:
    """Ignore those that are meant for the server; returns what becomes readable when the program ends."""
    # Ctrl-C and SIGTERM are meant for the server; this process ends with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ended, writing = os.pipe()
    for end in (ended, writing):
        os.set_blocking(end, False)
    # So that the end of the program is noticed while the pipe is waited for.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ended


def _start(config: dict[str, Any]) -> subprocess.Popen[bytes]:
    with open(config["log"], "ab") as log:  # noqa: PTH123 - avoids an import
        return subprocess.Popen(  # noqa: S603
            config["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=config["environment"],
            cwd=config["directory"],
            restore_signals=True,
            preexec_fn=_default_signals,  # noqa: PLW1509 - single-threaded
        )


def _stop(program: subprocess.Popen[bytes]) -> int:
    program.send_signal(signal.SIGINT)
    try:
        return program.wait(FAST_STOP_S)
    except subprocess.TimeoutExpired:
        program.send_signal(signal.SIGQUIT)
        return program.wait()


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
