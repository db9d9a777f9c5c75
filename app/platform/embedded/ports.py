"""Ports for programs that cannot choose their own."""

import random
import socket
from contextlib import suppress

_BETWEEN = (10_000, 32_000)
"""Below those that systems give to connections and to listeners without a port of their own."""
_given: set[int] = set()


def free_port() -> int:
    """A port that nothing takes before its program does: no connection gets it, and no caller twice."""
    while True:
        port = random.randrange(*_BETWEEN)  # noqa: S311 - nothing secret
        if port not in _given:
            with suppress(OSError), socket.create_server(("127.0.0.1", port)):
                _given.add(port)
                return port
