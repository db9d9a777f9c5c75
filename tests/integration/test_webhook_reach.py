"""Where deliveries go, where they never go, and how a host proves that it is one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from app.auth.records import KeyRecord
from app.errors import Invalid
from app.platform.db import Database
from app.platform.network import Network, Proxy
from app.platform.ssrf_guard import AddressPolicy
from app.webhooks.message import mint_secret, sign_message
from app.webhooks.records import Registration
from app.webhooks.retries import ReceiverResponse
from app.webhooks.sender import WebhookSender
from app.webhooks.service import Webhooks
from tests.authority import Authority
from tests.integration import webhook_seam
from tests.outgoing_proxy import ConnectProxy, listening, over_tls
from tests.receivers import a_receiver

PUBLIC = "8.8.8.8"


async def sent_to(url: str, network: Network, *, address: str = "127.0.0.1") -> ReceiverResponse:
    """One message to a host that has this address."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return [address]

    addresses = AddressPolicy(allow_private=address != PUBLIC, resolver=resolve)
    async with WebhookSender(addresses, call_s=5.0, network=network) as sender:
        return await sender.send(url, sign_message(uuid4(), {}, mint_secret(), at=webhook_seam.now()))


async def test_the_certificate_is_checked_against_the_host_name(tmp_path: Path) -> None:
    authority, names = Authority(tmp_path), list[str | None]()
    certificate = authority.certificate("hooks.test")
    async with a_receiver() as receiver, over_tls(receiver.url, certificate, names=names) as port:
        answer = await sent_to(f"https://hooks.test:{port}/in", Network(authorities=authority.file))

    assert answer == ReceiverResponse(204)
    assert names == ["hooks.test"]
    assert [(post.path, post.headers["host"]) for post in receiver.posts] == [("/in", f"hooks.test:{port}")]


@pytest.mark.parametrize("is_proxied", [True, False])
async def test_a_server_with_another_certificate_gets_no_message(tmp_path: Path, *, is_proxied: bool) -> None:
    authority = Authority(tmp_path)
    certificate = authority.certificate("other.test")
    async with (
        a_receiver() as receiver,
        over_tls(receiver.url, certificate) as port,
        listening(ConnectProxy({PUBLIC: port})) as proxy,
    ):
        network = Network(Proxy.read(proxy.url), authorities=authority.file)
        address = PUBLIC if is_proxied else "127.0.0.1"
        answer = await sent_to(f"https://hooks.test:{port}/in", network, address=address)

    assert answer == ReceiverResponse(problem="connection_failed")
    assert receiver.posts == []


async def test_a_proxy_gets_the_address_that_was_checked_and_never_a_name(tmp_path: Path) -> None:
    """It would resolve the name itself, in the operator's network."""
    authority, names = Authority(tmp_path), list[str | None]()
    certificate = authority.certificate("hooks.test")
    async with (
        a_receiver() as receiver,
        over_tls(receiver.url, certificate, names=names) as port,
        listening(ConnectProxy({PUBLIC: port, "hooks.test": port, "10.0.0.5": port})) as proxy,
    ):
        network = Network(Proxy.read(proxy.url), authorities=authority.file)
        answers = [
            await sent_to("https://hooks.test/in", network, address=PUBLIC),
            await sent_to("https://hooks.test/in", network, address="169.254.169.254"),
        ]

    assert answers == [ReceiverResponse(204), ReceiverResponse(problem="address_refused")]
    assert proxy.requested == [f"{PUBLIC}:443"]
    assert names == [receiver.posts[0].headers["host"]] == ["hooks.test"]


@pytest.mark.parametrize(("found", "problem"), [(["127.0.0.1"], "connection_failed"), ([], "name_not_found")])
async def test_an_unreachable_receiver_is_reported(
    database: Database, key: KeyRecord, found: list[str], problem: str
) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return found

    addresses = AddressPolicy(allow_private=True, resolver=resolve)
    async with webhook_seam.delivering(
        database, config=replace(webhook_seam.QUICK, retry_schedule=()), addresses=addresses
    ):
        webhook, _ = await webhook_seam.register(database, key, "http://hooks.invalid:1/hook")
        await webhook_seam.charge(database, key, "msg_1")
        (delivery,) = await webhook_seam.settled(database, webhook)

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
        await webhook_seam.charge(database, key, "msg_1")
        async with webhook_seam.delivering(
            database, config=replace(webhook_seam.QUICK, retry_schedule=()), addresses=addresses
        ):
            (delivery,) = await webhook_seam.settled(database, webhook)

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
        webhook, _ = await webhook_seam.register(database, key, url)
        await webhook_seam.charge(database, key, "msg_1")
        addresses = AddressPolicy(allow_private=True, resolver=resolve)
        async with webhook_seam.delivering(database, addresses=addresses):
            await webhook_seam.settled(database, webhook, status="delivered")

    assert resolved == ["hooks.invalid"]
    assert receiver.posts[0].headers["host"] == url.split("/")[2]
