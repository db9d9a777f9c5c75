"""Worker process: `python -I worker.py`. It calls the function `handle` of the modules that requests name.

Standard input and output are pipes to the server. It exits when they close, and when a request has used up
its processor time. It has few imports, so that it starts quickly.
"""

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

REQUEST = struct.Struct(">HfI")
"""Length of the handler's path, seconds of processor time, length of the request."""
REPLY = struct.Struct(">I")
MAX_MEMORY = 512 * 1024 * 1024


def main() -> None:
    """Handle requests until standard input closes."""
    # Ctrl-C and SIGTERM are meant for the server; this process ends with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The default action ends the process, whatever code is running.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    # Lower priority than the server.
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    while len(header := reading.read(REQUEST.size)) == REQUEST.size:
        path_bytes, seconds, request_bytes = REQUEST.unpack(header)
        handle, request = _handler(reading.read(path_bytes)), reading.read(request_bytes)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        reply = json.dumps(handle(request)).encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        writing.write(REPLY.pack(len(reply)) + reply)
        writing.flush()


@cache
def _handler(path: bytes) -> Callable[[bytes], list[Any]]:
    # By its path: the server's package is not importable here.
    spec = spec_from_file_location("handler", os.fsdecode(path))
    assert spec is not None  # noqa: S101 - a Python file
    assert spec.loader is not None  # noqa: S101
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    handle: Callable[[bytes], list[Any]] = module.handle
    return handle


if __name__ == "__main__":
    main()
