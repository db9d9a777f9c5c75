"""Where deliveries go, where they never go, and how a host proves that it is one."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.auth.records import KeyRecord
from app.errors import Invalid
from app.platform.db import Database
from app.webhooks.addresses import AddressPolicy
from app.webhooks.message import mint_secret, sign_message
from app.webhooks.retries import ReceiverResponse
from app.webhooks.sender import WebhookSender
from app.webhooks.service import Registration, Webhooks
from tests.integration.webhook_seam import (
    QUICK,
    charge,
    delivering,
    now,
    register,
    settled,
)
from tests.receivers import a_receiver

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


@pytest.mark.parametrize(("found", "problem"), [(["127.0.0.1"], "connection_failed"), ([], "name_not_found")])
async def test_an_unreachable_receiver_is_reported(
    database: Database, key: KeyRecord, found: list[str], problem: str
) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return found

    addresses = AddressPolicy(allow_private=True, resolver=resolve)
    async with delivering(database, config=replace(QUICK, retry_schedule=()), addresses=addresses):
        webhook, _ = await register(database, key, "http://hooks.invalid:1/hook")
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook)

    assert (delivery.status, delivery.last_error, delivery.last_status) == ("failed", problem, None)


async def test_private_addresses_are_refused_at_registration(database: Database, key: KeyRecord) -> None:
    async with AddressPolicy() as addresses:
        webhooks = Webhooks(database, addresses)
        for url in ("https://127.0.0.1/", "https://localhost/", "https://[::1]/", "https://169.254.169.254/"):
            with pytest.raises(Invalid) as refused:
                await webhooks.register(key.account_id, Registration(url, ("run.completed",)))
            assert [error.field for error in refused.value.errors] == ["url"]


async def test_dns_rebinding_reaches_no_private_address(database: Database, key: KeyRecord) -> None:
    found = ["8.8.8.8"]

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return found

    addresses = AddressPolicy(resolver=resolve)
    async with a_receiver() as receiver:
        port = receiver.url.split(":")[2].split("/")[0]
        wanted = Registration(f"https://rebound.example:{port}/", ("receipt.created",))
        webhook, _ = await Webhooks(database, addresses).register(key.account_id, wanted)
        found[:] = ["127.0.0.1"]
        await charge(database, key, "msg_1")
        async with delivering(database, config=replace(QUICK, retry_schedule=()), addresses=addresses):
            (delivery,) = await settled(database, webhook)

    assert (delivery.last_error, delivery.last_status) == ("address_refused", None)
    assert receiver.posts == []


async def test_the_checked_address_is_the_one_that_is_called(database: Database, key: KeyRecord) -> None:
    resolved: list[str] = []

    async def resolve(host: str, _port: int) -> Sequence[str]:
        # A dead address first: the next one is tried. No name server knows this name.
        resolved.append(host)
        return ["127.0.0.2", "127.0.0.1"]

    async with a_receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.invalid")
        webhook, _ = await register(database, key, url)
        await charge(database, key, "msg_1")
        addresses = AddressPolicy(allow_private=True, resolver=resolve)
        async with delivering(database, addresses=addresses):
            await settled(database, webhook, status="delivered")

    assert resolved == ["hooks.invalid"]
    assert receiver.posts[0].headers["host"] == url.split("/")[2]
