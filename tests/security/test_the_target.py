"""What the other stories measure with measures something."""

import subprocess
import sys

import psutil

from tests.e2e.stories import a_request
from tests.security.probe import latency
from tests.security.server import Target

# A server that has half a second's work to do before its second answer.
BUSY = """
import socket, time
with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    for work_s in (0, 0.5, 0):
        connection, _ = listening.accept()
        until = time.process_time() + work_s
        while time.process_time() < until:
            pass
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
        connection.close()
"""


def test_what_a_server_does_before_it_answers_is_noticed() -> None:
    with psutil.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        took = [latency("127.0.0.1", port, psutil.Process(server.pid))[1] for _ in range(4)]

    # The last one was not answered.
    assert [each > 0.4 for each in took] == [False, True, False, True]


async def test_a_healthy_server_answers_at_once(target: Target) -> None:
    async with target.watched() as watched:
        pass

    assert watched.worst_cpu_s < 0.4
    assert watched.peak_bytes > 10_000_000


async def test_a_tenant_runs_and_is_answered(target: Target) -> None:
    key = await target.new_key("obedience")

    async with target.good_client(key) as http:
        answer = await http.post("/v1/runs/wait", json=a_request("say words 3"))

    assert answer.json()["content"].split() == ["word"] * 3
