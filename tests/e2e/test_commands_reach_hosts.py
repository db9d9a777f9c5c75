"""Commands reach the hosts that a graph names, with the real CLI, sandbox, pip and TLS."""

import io
import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from tests.authority import Authority
from tests.e2e.stories import World, WorldOf, a_request
from tests.e2e.workshop import EDITOR, answered, bash, calling, settings, upload
from tests.log_lines import written_log
from tests.outgoing_proxy import over_tls
from tests.programs import require

WHEEL = "greeting-1.0-py3-none-any.whl"
DIRECTLY = "NO_PROXY= no_proxy="
"""The variables tell programs to connect to localhost without the proxy, where no other host is."""


@pytest.fixture(autouse=True)
def _programs() -> None:
    require("bwrap", "socat", "pip3", "curl")


def a_wheel() -> bytes:
    """A package that says something."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("greeting.py", "WORDS = 'installed from the index'\n")
        about = "greeting-1.0.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{about}/WHEEL", tag)
        wheel.writestr(f"{about}/RECORD", "")
    return packed.getvalue()


async def index(scope: Scope, _receive: Receive, send: Send) -> None:
    """An index of one package."""
    is_wheel = scope["path"].endswith(".whl")
    body = a_wheel() if is_wheel else f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
    kind = b"application/octet-stream" if is_wheel else b"text/html"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def two_indexes(authority: Authority) -> AsyncIterator[tuple[int, int]]:
    """The ports of two of them with certificates for localhost."""
    certificate = authority.certificate("localhost")
    async with (
        serve_on_loopback(index) as plain,
        over_tls(plain, certificate) as one,
        over_tls(plain, certificate) as other,
    ):
        yield one, other


def pip(port: int, directory: str) -> str:
    url = f"https://localhost:{port}/simple"
    options = f"--cert ca.pem --index-url {url} --target {directory} --no-input --retries 0 --timeout 30"
    return f"{DIRECTLY} pip3 install {options} greeting 2>&1 | tail -5"


def reaching(tmp_path: Path, *hosts: str) -> dict[str, Any]:
    return settings(tmp_path, f"network: [{', '.join(hosts)}]", RUNTALLY_EGRESS_ALLOW_PRIVATE=True)


async def network_of(world: World, run_id: str) -> list[dict[str, Any]]:
    response = await world.http.get(f"/v1/runs/{run_id}")
    network: list[dict[str, Any]] = response.raise_for_status().json()["network"]
    return network


async def test_pip_installs_from_the_index_of_the_graph_and_from_no_other(
    world_of: WorldOf, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    async with two_indexes(authority) as (allowed, other):
        model = calling(
            bash(pip(allowed, "lib")),
            bash("PYTHONPATH=lib python3 -c 'import greeting; print(greeting.WORDS)'"),
            bash(pip(other, "other")),
            bash("ls"),
        )
        world = await world_of(model, **reaching(tmp_path, f'"localhost:{allowed}"'))
        certificate = upload("ca.pem", authority.file.read_bytes())

        events = await world.run(a_request("go", graphId=EDITOR, files=[certificate]))

        assert f"no others: localhost:{allowed}" in json.dumps(world.simulator.requests[0].body["system"])
        installed, words, refused, listed = answered(world)
        assert "Successfully installed greeting-1.0" in installed
        assert "installed from the index" in words
        assert "No matching distribution" in refused
        assert "other" not in listed
        (traffic,) = await network_of(world, events[0].data["runId"])
        assert traffic["host"] == f"localhost:{allowed}"
        assert traffic["connections"] >= 1
        assert traffic["receivedBytes"] > len(a_wheel())
        assert traffic["sentBytes"] > 500


async def test_a_command_cannot_go_past_the_proxy(world_of: WorldOf, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with two_indexes(authority) as (allowed, other):
        gateway = "$(cat /proc/net/tcp | wc -l)"
        curl = f"{DIRECTLY} curl -sS -k --max-time 60"
        model = calling(
            # Without the proxy there is nothing.
            bash(f"{curl} --noproxy '*' https://localhost:{allowed}/ 2>&1; echo {gateway}"),
            # The name in TLS is another one.
            bash(f"{curl} --connect-to other.test:443:localhost:{allowed} https://other.test/ 2>&1; true"),
            bash(f"{curl} https://127.0.0.1:{allowed}/ 2>&1; {curl} https://169.254.169.254/ 2>&1; true"),
            bash(f"{curl} http://localhost:{allowed}/ 2>&1; true"),
            # What passes connections on to the socket is outside of the command's reach.
            bash(
                'python3 -c "import socket; socket.socket(socket.AF_UNIX)" 2>&1; ls /agent/egress 2>&1; true'
            ),
        )
        world = await world_of(model, **reaching(tmp_path, f'"localhost:{allowed}"', f'"other.test:{other}"'))

        with written_log() as written:
            events = await world.run(a_request("go", graphId=EDITOR))

        directly, other_name, addresses, plain, socket = answered(world)
        assert "curl: (7)" in directly
        assert "curl: (" in other_name
        assert addresses.count("403") == 2
        assert "only https is possible" in plain
        assert "Operation not permitted" in socket
        assert "No such file" in socket
        assert not any("WORDS" in answer or WHEEL in answer for answer in answered(world))
        assert await network_of(world, events[0].data["runId"]) == []
        refused = written.of("egress.refused")
        assert {line["refused"] for line in refused} == {"host", "request", "tls"}
        assert {line["run_id"] for line in refused} == {events[0].data["runId"]}
