"""The proxy between commands and the hosts of their graph, with real sockets and TLS."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from app.platform.metrics.egress import EgressMetrics
from app.platform.network import DIRECT, Network, Proxy
from app.platform.ssrf_guard import AddressPolicy
from app.workspaces.egress.proxy import MAX_CONNECTIONS, Egress, EgressProxy
from tests.authority import Authority
from tests.e2e.stories import until
from tests.log_lines import written_log
from tests.outgoing_proxy import ConnectProxy, listening
from tests.patience import PATIENCE_S

HOST = "index.test"
MIB = 1024 * 1024
UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"


@dataclass(slots=True)
class Place:
    """A proxy, a server that it may reach, and what it resolves names to."""

    proxy: EgressProxy
    path: Path
    port: int
    authority: Authority
    addresses: list[str]
    accepted: list[StreamWriter] = field(default_factory=list)
    """The connections to the server, also those without TLS."""
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    @property
    def target(self) -> str:
        return f"{HOST}:{self.port}"

    async def connect(self, request: str) -> tuple[bytes, StreamReader, StreamWriter]:
        """The head of the answer, and the connection."""
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(request.encode())
        return await reader.readuntil(b"\r\n\r\n"), reader, writer

    async def tunnel(self, name: str | None = HOST) -> tuple[StreamReader, StreamWriter]:
        """A connection to the server, after its TLS handshake with this name."""
        head, reader, writer = await self.connect(f"CONNECT {self.target} HTTP/1.1\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        context = ssl.create_default_context(cafile=self.authority.file)
        context.check_hostname = name is not None
        await writer.start_tls(context, server_hostname=name)
        return reader, writer

    async def refusal(self, request: str) -> tuple[int, str]:
        """The status and the text."""
        head, reader, writer = await self.connect(request)
        text = await reader.read()
        writer.close()
        return int(head.split()[1]), text.decode()


async def rest_of(reader: StreamReader) -> bytes:
    """What still comes before the connection ends, however it does."""
    try:
        return await reader.read()
    except (OSError, ssl.SSLError):
        return b""


async def echo(reader: StreamReader, writer: StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def a_place(
    tmp_path: Path,
    *,
    hosts: Sequence[str] = (),
    allow_private: bool = True,
    max_bytes: int = MIB,
    step_s: float = PATIENCE_S,
    idle_s: float = PATIENCE_S,
    network: Network = DIRECT,
) -> AsyncIterator[Place]:
    authority, addresses, registry = Authority(tmp_path), ["127.0.0.1"], CollectorRegistry()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.certificate(HOST))
    accepted: list[StreamWriter] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        accepted.append(writer)
        try:
            await writer.start_tls(context)
            await echo(reader, writer)
        except (OSError, ssl.SSLError):
            writer.transport.abort()

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return addresses

    async with (
        await asyncio.start_server(serve, "127.0.0.1") as server,
        AddressPolicy(allow_private=allow_private, resolver=resolve) as policy,
    ):
        port = server.sockets[0].getsockname()[1]
        egress = Egress(policy, network, EgressMetrics(registry), step_s, idle_s)
        proxy = egress.proxy([f"{HOST}:{port}", *hosts], max_bytes=max_bytes)
        path = tmp_path / "proxy"
        await proxy.listen(path)
        try:
            yield Place(proxy, path, port, authority, addresses, accepted, registry)
        finally:
            await proxy.aclose()
            for writer in accepted:
                writer.transport.abort()


async def test_a_host_of_the_graph_is_reached_and_its_bytes_are_counted(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        for _ in range(2):
            reader, writer = await place.tunnel()
            writer.write(b"x" * 100_000)
            assert await reader.readexactly(100_000) == b"x" * 100_000
            writer.close()
        await until(lambda: place.proxy.traffic[0].received_bytes > 200_000)

        (traffic,) = place.proxy.traffic
        assert (traffic.host, traffic.connections) == (place.target, 2)
        assert 200_000 < traffic.sent_bytes < 210_000
        assert 200_000 < traffic.received_bytes < 220_000
        assert place.registry.get_sample_value("runtally_egress_connections_total") == 2
        assert HOST not in generate_latest(place.registry).decode()


@pytest.mark.parametrize(
    ("request_line", "status", "reason"),
    [
        ("CONNECT other.test:443 HTTP/1.1", 403, "other.test is not one of the hosts"),
        ("CONNECT index.test:1 HTTP/1.1", 403, "index.test:1 is not one of the hosts"),
        ("CONNECT a.index.test:443 HTTP/1.1", 403, "not one of the hosts"),
        # The gateway, and the service that hands out a cloud machine's credentials.
        ("CONNECT 127.0.0.1:8000 HTTP/1.1", 403, "not addresses"),
        ("CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1", 403, "not addresses"),
        ("CONNECT 169.254.169.254:443 HTTP/1.1", 403, "not addresses"),
        ("CONNECT 2130706433:443 HTTP/1.1", 403, "not addresses"),
        ("GET http://index.test/ HTTP/1.1", 405, "only https"),
        ("GET / HTTP/1.1", 405, "only https"),
        ("CONNECT index.test:443", 405, "only https"),
        ("CONNECT index.test:443 HTTP/1.1\nHost: index.test", 405, "only https"),
        ("CONNECT index.test:443\rX: y HTTP/1.1", 405, "only https"),
        ("CONNECT index.test:443\x00 HTTP/1.1", 405, "only https"),
        ("\x05\x01\x00", 405, "only https"),
        (f"CONNECT {'a' * 9000} HTTP/1.1", 405, "too long"),
    ],
)
async def test_all_other_requests_are_refused_with_a_reason(
    tmp_path: Path, request_line: str, status: int, reason: str
) -> None:
    async with a_place(tmp_path) as place:
        found, text = await place.refusal(f"{request_line}\r\nHost: {place.target}\r\n\r\n")

        assert (found, reason in text) == (status, True), text
        assert place.accepted == []
        assert place.proxy.traffic == []


@pytest.mark.parametrize("address", ["127.0.0.1", "fd00::1"])
async def test_a_name_that_leads_into_the_operators_network_is_refused(tmp_path: Path, address: str) -> None:
    async with a_place(tmp_path, allow_private=False) as place:
        # One of them is enough: the caller does not choose which is called.
        place.addresses[:] = ["93.184.216.34", address]

        status, text = await place.refusal(f"CONNECT {place.target} HTTP/1.1\r\n\r\n")

        assert (status, "must not be connected to" in text) == (403, True)
        assert address not in text


async def test_a_name_that_changes_its_address_is_checked_each_time(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        _, writer = await place.tunnel()
        writer.close()
        place.addresses[:] = ["169.254.169.254"]

        status, _ = await place.refusal(f"CONNECT {place.target} HTTP/1.1\r\n\r\n")

        assert status == 403
        assert len(place.accepted) == 1


@pytest.mark.parametrize("name", ["other.test", None], ids=["another", "none"])
async def test_the_server_gets_nothing_before_the_hello_names_it(tmp_path: Path, name: str | None) -> None:
    async with a_place(tmp_path) as place:
        with pytest.raises((ssl.SSLError, OSError)):
            await place.tunnel(name)

        assert place.proxy.traffic == []
        assert place.registry.get_sample_value("runtally_egress_refused_total", {"reason": "tls"}) == 1


async def test_what_is_no_tls_ends_with_an_alert(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        _, reader, writer = await place.connect(
            f"CONNECT {place.target} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        )

        assert await reader.read() == UNRECOGNIZED_NAME
        writer.close()
        assert place.proxy.traffic == []


async def test_headers_of_a_request_lead_nowhere(tmp_path: Path) -> None:
    async with a_place(tmp_path, hosts=["other.test"]) as place:
        head, _, writer = await place.connect(
            f"CONNECT {place.target} HTTP/1.1\r\nHost: other.test\r\nX-Forwarded-Host: 10.0.0.1\r\n\r\n"
        )

        assert head == b"HTTP/1.1 200 Connection established\r\n\r\n"
        writer.close()
        await until(lambda: len(place.accepted) == 1)


@pytest.mark.parametrize("sent", ["", "CONNECT ind", f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: x"])
async def test_a_request_that_does_not_end_is_given_up(tmp_path: Path, sent: str) -> None:
    async with a_place(tmp_path, step_s=0.05) as place:
        status, text = await place.refusal(sent)

        assert (status, text) == (504, "the request takes too long\n")


async def test_a_hello_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    async with a_place(tmp_path, step_s=0.2) as place:
        _, reader, writer = await place.connect(f"CONNECT {place.target} HTTP/1.1\r\n\r\n\x16\x03\x01\x02")

        assert await reader.read() == b""
        writer.close()


async def test_a_connection_without_traffic_is_closed(tmp_path: Path) -> None:
    async with a_place(tmp_path, idle_s=0.2) as place:
        reader, writer = await place.tunnel()
        # Half of it is closed already.
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"

        assert await rest_of(reader) == b""
        writer.transport.abort()


async def test_a_run_has_so_many_connections_at_once_and_another_run_its_own(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with a_place(tmp_path) as place, a_place(tmp_path / "other") as other:
        held = [await asyncio.open_unix_connection(place.path) for _ in range(MAX_CONNECTIONS)]
        # Refused ones hold nothing, however many there are.
        for _ in range(1000):
            reader, writer = await asyncio.open_unix_connection(place.path)
            assert (await reader.read()).startswith(b"HTTP/1.1 429 ")
            writer.close()
        _, writer = await other.tunnel()
        writer.close()

        for _, writer in held:
            writer.close()
        await until(lambda: not place.proxy._connections)
        _, writer = await place.tunnel()
        writer.close()


async def test_a_run_exchanges_so_many_bytes(tmp_path: Path) -> None:
    async with a_place(tmp_path, max_bytes=50_000) as place:
        reader, writer = await place.tunnel()
        writer.write(b"x" * 100_000)

        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(50_000)
        writer.transport.abort()
        (traffic,) = place.proxy.traffic
        assert traffic.sent_bytes + traffic.received_bytes <= 50_000
        status, text = await place.refusal(f"CONNECT {place.target} HTTP/1.1\r\n\r\n")
        assert (status, "used up the bytes" in text) == (429, True)


async def test_nothing_is_left_when_the_run_is_over(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        reader, writer = await place.tunnel()
        await place.proxy.aclose()

        assert await rest_of(reader) == b""
        with pytest.raises(OSError):  # noqa: PT011 - as the system calls it
            await asyncio.open_unix_connection(place.path)
        writer.transport.abort()


async def test_refusals_are_logged_until_there_are_too_many(tmp_path: Path) -> None:
    with written_log() as written:
        async with a_place(tmp_path) as place:
            for _ in range(30):
                await place.refusal("CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
            refused = place.registry.get_sample_value("runtally_egress_refused_total", {"reason": "host"})

    lines = written.of("egress.refused")
    assert refused == 30
    assert len(lines) == 20
    assert "evil.test" in lines[0]["reason"]


async def test_behind_a_proxy_the_checked_address_is_connected_to(tmp_path: Path) -> None:
    there = ConnectProxy({}, credentials=("user", "secret"))
    async with listening(there):
        found = Proxy.read(there.url.replace("http://", "http://user:secret@"))
        async with a_place(tmp_path, network=Network(found)) as place:
            there.ports["198.51.100.7"] = place.port
            place.addresses[:] = ["198.51.100.7"]

            reader, writer = await place.tunnel()
            writer.write(b"x")

            assert await reader.readexactly(1) == b"x"
            assert there.requested == [f"198.51.100.7:{place.port}"]
            writer.close()
            there.refuses = 403
            status, _ = await place.refusal(f"CONNECT {place.target} HTTP/1.1\r\n\r\n")
            assert status == 502


async def test_a_proxy_that_never_listened_is_closed_as_well() -> None:
    async with AddressPolicy() as policy:
        proxy = Egress(policy).proxy([], max_bytes=MIB)
        await proxy.aclose()
        assert proxy.traffic == []
