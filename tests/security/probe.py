"""Asks a server's /healthz from a process of its own, over a new connection and another address each time.

    python -m tests.security.probe 127.0.0.1 8000 PID

Asks until its standard input ends, then prints a JSON list with what each answer took: seconds, and seconds
of CPU that the server used meanwhile, on which nothing else on the machine has an influence. An answer that
never came counts as long as it was waited for.
"""

import json
import socket
import sys
import threading
import time

import psutil

ADDRESS = "127.0.0.77"
"""Loopback all the same, and none of those that a cap on an attacker's connections counts."""
EVERY_S = 0.02
LONGEST_S = 60.0
_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"


def latency(host: str, port: int, server: psutil.Process) -> tuple[float, float]:
    """What one answer took, in seconds and in the server's CPU; `LONGEST_S` for one that was none."""
    began, used = time.perf_counter(), sum(server.cpu_times()[:2])
    try:
        with socket.create_connection((host, port), LONGEST_S, source_address=(ADDRESS, 0)) as connection:
            connection.sendall(_REQUEST)
            answered = connection.recv(65_536).startswith(b"HTTP/1.1 200")
    except OSError:
        answered = False
    if not answered:
        return LONGEST_S, LONGEST_S
    return time.perf_counter() - began, sum(server.cpu_times()[:2]) - used


def main(host: str, port: int, server: psutil.Process) -> None:
    """Ask until nobody wants to know any more."""
    done = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        done.set()

    threading.Thread(target=listen, daemon=True).start()
    took = [latency(host, port, server)]
    print("asking", flush=True)  # noqa: T201
    while not done.wait(EVERY_S):
        took.append(latency(host, port, server))
    print(json.dumps(took), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), psutil.Process(int(sys.argv[3])))
