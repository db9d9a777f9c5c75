"""Where deliveries go, and where they never go."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.auth.records import KeyRecord
from app.errors import Invalid
from app.platform.db import Database
from app.webhooks.addresses import AddressPolicy
from app.webhooks.service import Registration, Webhooks
from tests.integration.webhook_seam import (
    QUICK,
    charge,
    delivering,
    register,
    settled,
)
from tests.receivers import a_receiver


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
