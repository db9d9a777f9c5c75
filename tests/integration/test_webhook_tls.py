"""Whoever has the address must also prove to be the host: over a real TLS server on loopback."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.webhooks.addresses import AddressPolicy
from app.webhooks.message import mint_secret, sign_message
from app.webhooks.retries import ReceiverResponse
from app.webhooks.sender import WebhookSender
from tests.integration.webhook_seam import now

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
DAY = timedelta(days=1)


@dataclass(slots=True)
class ReceivedRequests:
    """What a server with a certificate received."""

    trusting: ssl.SSLContext
    port: int = 0
    names: list[str | None] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)


def certificate_for(host: str, directory: Path) -> Path:
    """A self-signed certificate and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now() - DAY)
        .not_valid_after(now() + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = directory / f"{host}.pem"
    path.write_bytes(certificate.public_bytes(pem) + key.private_bytes(pem, *plain))
    return path


@asynccontextmanager
async def a_secure_server(certified_for: str, directory: Path) -> AsyncIterator[ReceivedRequests]:
    """Answer 204 over TLS, as this host."""
    path = certificate_for(certified_for, directory)
    received = ReceivedRequests(ssl.create_default_context(cafile=path))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)
    context.sni_callback = lambda _socket, name, _context: received.names.append(name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(NO_CONTENT)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        received.port = server.sockets[0].getsockname()[1]
        yield received


async def sent_to(url: str, *, authorities: ssl.SSLContext) -> ReceiverResponse:
    """One message to a host that leads to loopback."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    addresses = AddressPolicy(allow_private=True, resolver=resolve)
    async with WebhookSender(addresses, call_s=5.0, authorities=authorities) as sender:
        return await sender.send(url, sign_message(uuid4(), {}, mint_secret(), at=now()))


async def test_the_certificate_is_checked_against_the_host_name(tmp_path: Path) -> None:
    async with a_secure_server("hooks.test", tmp_path) as received:
        answer = await sent_to(f"https://hooks.test:{received.port}/in", authorities=received.trusting)

    assert answer == ReceiverResponse(204)
    assert received.names == ["hooks.test"]
    assert received.heads[0].startswith(b"POST /in HTTP/1.1\r\n")
    assert f"host: hooks.test:{received.port}".encode() in received.heads[0].lower()


async def test_a_server_with_another_certificate_gets_no_message(tmp_path: Path) -> None:
    async with a_secure_server("other.test", tmp_path) as received:
        answer = await sent_to(f"https://hooks.test:{received.port}/in", authorities=received.trusting)

    assert answer == ReceiverResponse(problem="connection_failed")
    assert received.heads == []
