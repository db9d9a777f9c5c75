"""The socket from a server process to its supervisor, which is its standard input.

When the supervisor is gone, for whatever reason, the process ends at once, so that another command can have
the port. Imports nothing of the server.
"""

import os
import shutil
import signal
import socket
import sys
from contextlib import suppress
from threading import Thread


def held_lifeline(directory: str) -> socket.socket:
    """The socket, which nothing that this process starts may inherit. `directory` is removed in the end."""
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
