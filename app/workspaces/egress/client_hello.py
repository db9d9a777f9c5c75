"""The first message of a TLS client, read without a byte more than its end, and the server that it names."""

from asyncio import StreamReader
from typing import Final, NamedTuple

_HANDSHAKE: Final = 22
_TLS: Final = 3
_CLIENT_HELLO: Final = 1
_MESSAGE_HEADER: Final = 4
"""Its kind and, in three bytes, its length."""
_MAX_RECORD: Final = 16_384
_MAX_BYTES: Final = 16_384
"""Of the whole message, with the headers of its records. Those of today's clients have 2 KiB at most."""

_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_ENCRYPTED_HELLO: Final = 0xFE0D


class HelloRefused(Exception):
    """It is no such message, or names no server; the text says what is wrong."""


class ClientHello(NamedTuple):
    """The bytes as they were sent, and the server's name in lower case."""

    sent: bytes
    server_name: str


async def read_client_hello(reader: StreamReader) -> ClientHello:
    """Read it, in however many records it comes. Raises `HelloRefused`, `IncompleteReadError`."""
    sent, message = bytearray(), bytearray()
    needed = _MESSAGE_HEADER
    while len(message) < needed:
        header = await reader.readexactly(5)
        length = int.from_bytes(header[3:])
        if header[0] != _HANDSHAKE or header[1] != _TLS or not 0 < length <= _MAX_RECORD:
            raise HelloRefused("the connection does not begin with TLS")
        if len(sent) + len(header) + length > _MAX_BYTES:
            raise HelloRefused("the first message of TLS is too long")
        record = await reader.readexactly(length)
        sent += header + record
        message += record
        if len(message) >= _MESSAGE_HEADER:
            needed = _MESSAGE_HEADER + int.from_bytes(message[1:4])
    if len(message) > needed or message[0] != _CLIENT_HELLO:
        raise HelloRefused("the connection does not begin with a TLS client's hello")
    return ClientHello(bytes(sent), server_name_of(bytes(message[_MESSAGE_HEADER:])))


def server_name_of(body: bytes) -> str:
    """The server that a hello names. Raises `HelloRefused` unless it is well-formed and names exactly one.

    A hello with an encrypted one inside is refused: the server that it really names cannot be seen.
    """
    hello = _Vector(body)
    # Version and random, session, cipher suites, compression.
    hello.take(2 + 32)
    hello.vector(1)
    hello.vector(2)
    hello.vector(1)
    extensions = hello.vector(2)
    hello.end()
    found: dict[int, _Vector] = {}
    while extensions.has_more:
        kind = extensions.number(2)
        if kind in found:
            raise HelloRefused("the TLS hello is malformed")
        found[kind] = extensions.vector(2)
    if _ENCRYPTED_HELLO in found:
        raise HelloRefused("the TLS hello is encrypted (ECH)")
    if _SERVER_NAME not in found:
        raise HelloRefused("the TLS hello names no server (SNI)")
    names = found[_SERVER_NAME].vector(2)
    found[_SERVER_NAME].end()
    if names.number(1) != _HOST_NAME:
        raise HelloRefused("the TLS hello is malformed")
    name = names.vector(2).rest
    names.end()
    return name.decode("ascii", errors="replace").lower()


class _Vector:
    """Bytes that are read from front to back."""

    def __init__(self, rest: bytes) -> None:
        self.rest = rest

    @property
    def has_more(self) -> bool:
        return bool(self.rest)

    def take(self, count: int) -> bytes:
        if len(self.rest) < count:
            raise HelloRefused("the TLS hello is malformed")
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> "_Vector":
        """The bytes whose length comes first, in `size` bytes."""
        return _Vector(self.take(self.number(size)))

    def end(self) -> None:
        if self.rest:
            raise HelloRefused("the TLS hello is malformed")
