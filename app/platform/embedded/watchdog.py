"""Watchdog process that owns PostgreSQL or Valkey: `python -I watchdog.py CONFIG`.

Standard input is a pipe from the server. When it closes, for whatever reason, the program is stopped. Uses
only the standard library, so that it starts quickly.
"""

import json
import signal
import subprocess
import sys

FAST_STOP_S = 30


def main() -> int:
    """Start the program, wait for the pipe to close, stop it."""
    config = json.loads(sys.argv[1])
    # Ctrl-C and SIGTERM are meant for the server; this process ends with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(config["log"], "ab") as log:  # noqa: PTH123 - avoids an import
        server = subprocess.Popen(  # noqa: S603
            config["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=config["environment"],
            cwd=config["directory"],
            restore_signals=True,
            preexec_fn=_default_signals,  # noqa: PLW1509 - single-threaded
        )
        sys.stdin.buffer.read()
        server.send_signal(signal.SIGINT)
        try:
            return server.wait(FAST_STOP_S)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)
            return server.wait()


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
