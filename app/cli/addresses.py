"""The addresses that a server listens on. Imports nothing of the server: the supervisor binds them, too."""

import socket
from contextlib import AbstractContextManager, nullcontext

from app.errors import Unavailable
from app.platform.settings import Settings

BACKLOG = 2048


class AddressInUse(Unavailable):
    """Another program uses this address; choose another with --port, or RUNTALLY_METRICS_PORT."""


def listen(host: str, port: int, *, remedy: str = "Choose another with --port.") -> socket.socket:
    """Bind the address; raises `AddressInUse`, which ends with the remedy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol: otherwise asyncio leaves Nagle's algorithm on, and short events wait for 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise AddressInUse(f"Cannot listen on {host}:{port}: {error.strerror}. {remedy}") from error
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def listen_for_scrapes(settings: Settings, host: str) -> AbstractContextManager[socket.socket | None]:
    """Bind the metrics port, if there is one; raises `AddressInUse`."""
    port = settings.metrics_port
    if port is None:
        return nullcontext()
    return listen(host, port, remedy="Choose another RUNTALLY_METRICS_PORT.")


def url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
