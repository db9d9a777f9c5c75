import asyncio
import ssl
from collections.abc import Callable

import pytest

from app.workspaces.egress.client_hello import HelloRefused, read_client_hello


def hello_of(name: str | None) -> bytes:
    """What a real TLS client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def reading(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


def in_records(message: bytes, size: int) -> bytes:
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2) + piece for piece in pieces)


def extension(kind: int, value: bytes) -> bytes:
    return kind.to_bytes(2) + len(value).to_bytes(2) + value


def server_name(*names: bytes, kind: int = 0) -> bytes:
    listed = b"".join(bytes([kind]) + len(name).to_bytes(2) + name for name in names)
    return extension(0, len(listed).to_bytes(2) + listed)


def with_extensions(extensions: bytes) -> bytes:
    """A hello with these extensions alone."""
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += len(extensions).to_bytes(2) + extensions
    return in_records(b"\x01" + len(body).to_bytes(3) + body, 16_384)


async def test_a_real_hello_is_read_to_its_end_and_no_further() -> None:
    sent = hello_of("PyPI.org")
    reader = reading(sent + b"more")

    hello = await read_client_hello(reader)

    assert hello == (sent, "pypi.org")
    assert await reader.read() == b"more"


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_a_hello_may_come_in_many_records(size: int) -> None:
    sent = in_records(hello_of("pypi.org")[5:], size)

    assert await read_client_hello(reading(sent)) == (sent, "pypi.org")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda: hello_of(None), "names no server", id="no server name"),
        pytest.param(lambda: b"GET / HTTP/1.1\r\n\r\n", "does not begin with TLS", id="no TLS"),
        pytest.param(lambda: b"SSH-2.0-OpenSSH_9.2\r\n", "does not begin with TLS", id="SSH"),
        pytest.param(lambda: b"\x16\x03\x01\x00\x00" * 9, "does not begin with TLS", id="empty records"),
        pytest.param(lambda: b"\x16\x03\x01\xff\xff", "does not begin with TLS", id="a record too long"),
        pytest.param(lambda: in_records(b"\x01\xff\xff\xff" + bytes(20_000), 9_000), "too long", id="long"),
        pytest.param(lambda: in_records(b"\x02\x00\x00\x01\x00", 9), "client's hello", id="another message"),
        pytest.param(
            lambda: in_records(hello_of("a.example")[5:] + b"\x14", 9_000),
            "client's hello",
            id="two messages",
        ),
        pytest.param(lambda: with_extensions(server_name(b"a", b"b")), "malformed", id="two names"),
        pytest.param(lambda: with_extensions(server_name(b"a") * 2), "malformed", id="twice"),
        pytest.param(lambda: with_extensions(server_name(b"a", kind=1)), "malformed", id="another kind"),
        pytest.param(lambda: with_extensions(extension(0, b"")), "malformed", id="no list"),
        pytest.param(lambda: with_extensions(b"\x00\x00\x00\x09\x00"), "malformed", id="cut off"),
        pytest.param(
            lambda: with_extensions(server_name(b"a") + extension(0xFE0D, b"\x00")), "ECH", id="encrypted"
        ),
    ],
)
async def test_what_hides_its_server_is_refused(make: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(HelloRefused, match=reason):
        await read_client_hello(reading(make()))


@pytest.mark.parametrize("name", [b"a.example\x00.b.example", b"a.example.", b"\xff"])
async def test_a_name_is_compared_as_it_was_sent(name: bytes) -> None:
    hello = await read_client_hello(reading(with_extensions(server_name(name))))

    assert hello.server_name != "a.example"
