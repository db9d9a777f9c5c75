"""The deliverer over a real database, towards real servers on loopback."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import text

from app.auth.repository import KeyRecord
from app.db import Database
from app.errors import Invalid
from app.webhooks.addresses import Addresses
from app.webhooks.deliverer import Pace
from app.webhooks.service import Registration, Webhooks
from tests.e2e.stories import until as until_so
from tests.factories import an_account
from tests.integration.webhook_seam import (
    QUICK,
    charge,
    deliveries,
    delivering,
    now,
    register,
    settled,
    until,
    webhooks_over,
)
from tests.receivers import a_receiver

SHORT_LEASE = replace(QUICK, lease=timedelta(seconds=0.5))


@pytest_asyncio.fixture
async def key(database: Database) -> KeyRecord:
    return await an_account(database)


async def age(database: Database, column: str, interval: str) -> None:
    """Move a column of every delivery or webhook into the past."""
    table = "webhooks" if column == "failing_since" else "webhook_deliveries"
    async with database.transaction() as tx:
        await tx.execute(text(f"UPDATE {table} SET {column} = {column} - INTERVAL '{interval}'"))  # noqa: S608


async def test_a_delivery_is_signed_and_says_what_happened(database: Database, key: KeyRecord) -> None:
    async with a_receiver() as receiver, delivering(database):
        webhook, secret = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook, status="delivered")

    (post,) = receiver.posts
    assert post.verified(secret)["data"]["usageUnitId"] == "msg_1"
    assert post.path == "/hook"
    assert post.headers["content-type"] == "application/json"
    assert post.headers["user-agent"].startswith("Runtally-Webhooks/")
    assert (delivery.attempts, delivery.last_status, delivery.last_error) == (1, 204, None)
    assert delivery.delivered_at is not None
    assert post.id == f"msg_{delivery.id.hex}"


async def test_what_fails_is_tried_again_as_the_same_message(database: Database, key: KeyRecord) -> None:
    async with a_receiver(500, 500, 200) as receiver, delivering(database):
        webhook, secret = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook, status="delivered")

    assert len(receiver.posts) == delivery.attempts == 3
    assert len(set(receiver.ids)) == 1
    assert len({post.body for post in receiver.posts}) == 1
    assert all(post.verified(secret) for post in receiver.posts)


async def test_after_the_last_attempt_a_delivery_has_failed(database: Database, key: KeyRecord) -> None:
    async with a_receiver(500) as receiver, delivering(database):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook)

    assert (delivery.status, delivery.attempts) == ("failed", len(QUICK.schedule) + 1)
    assert (delivery.last_status, delivery.last_error) == (500, "bad_status")
    assert (await webhooks_over(database).get(key.account_id, str(webhook.id))).enabled


async def test_the_next_attempt_waits_as_planned(database: Database, key: KeyRecord) -> None:
    pace = replace(QUICK, schedule=(timedelta(minutes=5),))
    async with (
        a_receiver(500) as receiver,
        a_receiver(503, headers={"retry-after": "1800"}) as busy,
        delivering(database, pace=pace),
    ):
        plain, _ = await register(database, key, receiver.url)
        wishing, _ = await register(database, key, busy.url)
        await charge(database, key, "msg_1")
        (planned,) = await settled(database, plain, last_status=500)
        (wished,) = await settled(database, wishing, last_status=503)

    assert timedelta(minutes=4) < planned.next_attempt_at - now() < timedelta(minutes=6)
    assert timedelta(minutes=29) < wished.next_attempt_at - now() < timedelta(minutes=31)


async def test_gone_disables_and_cancels(database: Database, key: KeyRecord) -> None:
    async with a_receiver(410) as receiver:
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1", "msg_2", "msg_3", "msg_4", "msg_5", "msg_6")
        async with delivering(database, pace=replace(QUICK, of_a_webhook=1)):
            found = await settled(database, webhook)
        await charge(database, key, "msg_7")

    shown = await webhooks_over(database).get(key.account_id, str(webhook.id))
    assert (shown.enabled, shown.disabled_reason) == (False, "gone")
    assert shown.disabled_at is not None
    assert sorted(each.status for each in found) == ["cancelled"] * 5 + ["failed"]
    assert len(await deliveries(database, webhook)) == 6
    assert len(receiver.posts) == 1


async def test_days_without_one_success_disable(database: Database, key: KeyRecord) -> None:
    async with a_receiver(500) as receiver, delivering(database):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        await settled(database, webhook)
        await age(database, "failing_since", "6 days")
        await charge(database, key, "msg_2")
        await settled(database, webhook)

    shown = await webhooks_over(database).get(key.account_id, str(webhook.id))
    assert (shown.enabled, shown.disabled_reason) == (False, "failing")


async def test_one_success_is_a_new_beginning(database: Database, key: KeyRecord) -> None:
    failing = [500] * (len(QUICK.schedule) + 1)
    async with a_receiver(*failing, 200, 500) as receiver, delivering(database):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        await settled(database, webhook)
        await age(database, "failing_since", "6 days")
        for message in ("msg_2", "msg_3"):
            await charge(database, key, message)
            found = await settled(database, webhook)

    assert [each.status for each in found] == ["failed", "delivered", "failed"]
    assert (await webhooks_over(database).get(key.account_id, str(webhook.id))).enabled


async def test_a_redirect_is_not_followed(database: Database, key: KeyRecord) -> None:
    async with (
        a_receiver() as inside,
        a_receiver(307, headers={"location": inside.url}) as receiver,
        delivering(database, pace=replace(QUICK, schedule=())),
    ):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook)

    assert (delivery.status, delivery.last_status) == ("failed", 307)
    assert (len(receiver.posts), inside.posts) == (1, [])


@pytest.mark.parametrize(("found", "problem"), [(["127.0.0.1"], "connection_failed"), ([], "name_not_found")])
async def test_who_is_not_there_is_said(
    database: Database, key: KeyRecord, found: list[str], problem: str
) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return found

    addresses = Addresses(allow_private=True, resolve=resolve)
    async with delivering(database, pace=replace(QUICK, schedule=()), addresses=addresses):
        webhook, _ = await register(database, key, "http://hooks.invalid:1/hook")
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook)

    assert (delivery.status, delivery.last_error, delivery.last_status) == ("failed", problem, None)


async def test_a_receiver_that_never_answers_is_given_up(database: Database, key: KeyRecord) -> None:
    async with (
        a_receiver(holds=True) as receiver,
        delivering(database, pace=replace(QUICK, schedule=()), call_s=0.2),
    ):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook)

    assert (delivery.status, delivery.last_error) == ("failed", "timeout")


async def test_slow_receivers_hold_up_nobody_else(database: Database, key: KeyRecord) -> None:
    other = await an_account(database, "other")
    pace = replace(QUICK, at_once=8, of_an_account=4, of_a_webhook=2)
    async with a_receiver(holds=True) as slow, a_receiver() as quick:
        tarpits = [(await register(database, key, slow.url))[0] for _ in range(4)]
        webhook, _ = await register(database, other, quick.url)
        await charge(database, key, *(f"slow_{number}" for number in range(20)))
        async with delivering(database, pace=pace):
            await until_so(lambda: slow.at_once == pace.of_an_account)
            await charge(database, other, *(f"quick_{number}" for number in range(20)))
            found = await settled(database, webhook, status="delivered")
            held = slow.most_at_once
            slow.let_go.set()
            for tarpit in tarpits:
                await settled(database, tarpit, status="delivered")

    assert len(found) == len(quick.posts) == 20
    assert held == pace.of_an_account
    assert len(set(slow.ids)) == len(slow.posts) == 80


async def test_a_slow_webhook_leaves_room_for_its_neighbour(database: Database, key: KeyRecord) -> None:
    pace = replace(QUICK, at_once=8, of_an_account=4, of_a_webhook=2)
    async with a_receiver(holds=True) as slow, a_receiver() as quick, delivering(database, pace=pace):
        await register(database, key, slow.url)
        webhook, _ = await register(database, key, quick.url)
        await charge(database, key, *(f"msg_{number}" for number in range(20)))
        found = await settled(database, webhook, status="delivered")

    assert len(found) == len(quick.posts) == 20
    assert slow.most_at_once == pace.of_a_webhook


async def test_a_process_that_dies_in_the_middle_is_made_good(database: Database, key: KeyRecord) -> None:
    async with a_receiver(holds=True) as receiver:
        webhook, secret = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        async with delivering(database, pace=SHORT_LEASE):
            await until_so(lambda: receiver.at_once == 1)
        receiver.let_go.set()
        async with delivering(database, pace=SHORT_LEASE):
            (delivery,) = await settled(database, webhook, status="delivered")

    assert delivery.attempts == len(receiver.posts) == 2
    assert len(set(receiver.ids)) == 1
    assert receiver.posts[-1].verified(secret)


async def test_two_processes_never_make_the_same_delivery(database: Database, key: KeyRecord) -> None:
    async with a_receiver() as receiver:
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, *(f"msg_{number}" for number in range(60)))
        async with delivering(database), delivering(database), delivering(database):
            found = await settled(database, webhook, status="delivered")

    assert [each.attempts for each in found] == [1] * 60
    assert len(receiver.ids) == len(set(receiver.ids)) == 60


async def test_a_claim_that_has_ended_changes_nothing(database: Database, key: KeyRecord) -> None:
    brief = replace(QUICK, lease=timedelta(seconds=0.2), of_a_webhook=1)
    async with a_receiver(500, 200, holds=True) as receiver:
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        async with delivering(database, pace=brief), delivering(database):
            # The first claim ends while its call is still under way, and another process takes over.
            await until_so(lambda: receiver.at_once == 2)
            receiver.let_go.set()
            (delivery,) = await settled(database, webhook, status="delivered")
            await until_so(lambda: receiver.at_once == 0)

    assert (delivery.status, delivery.last_status) == ("delivered", 200)


async def test_private_addresses_are_refused_at_registration(database: Database, key: KeyRecord) -> None:
    async with Addresses() as addresses:
        webhooks = Webhooks(database, addresses)
        for url in ("https://127.0.0.1/", "https://localhost/", "https://[::1]/", "https://169.254.169.254/"):
            with pytest.raises(Invalid) as refused:
                await webhooks.register(key.account_id, Registration(url, ("run.completed",)))
            assert [error.field for error in refused.value.errors] == ["url"]


async def test_a_name_that_changes_its_mind_reaches_nothing(database: Database, key: KeyRecord) -> None:
    found = ["8.8.8.8"]

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return found

    addresses = Addresses(resolve=resolve)
    async with a_receiver() as receiver:
        port = receiver.url.split(":")[2].split("/")[0]
        wanted = Registration(f"https://rebound.example:{port}/", ("receipt.created",))
        webhook, _ = await Webhooks(database, addresses).register(key.account_id, wanted)
        found[:] = ["127.0.0.1"]
        await charge(database, key, "msg_1")
        async with delivering(database, pace=replace(QUICK, schedule=()), addresses=addresses):
            (delivery,) = await settled(database, webhook)

    assert (delivery.last_error, delivery.last_status) == ("address_refused", None)
    assert receiver.posts == []


async def test_the_address_that_was_judged_is_the_one_that_is_called(
    database: Database, key: KeyRecord
) -> None:
    asked: list[str] = []

    async def resolve(host: str, _port: int) -> Sequence[str]:
        # A dead address first: the next one is tried. No name server knows this name.
        asked.append(host)
        return ["127.0.0.2", "127.0.0.1"]

    async with a_receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.invalid")
        webhook, _ = await register(database, key, url)
        await charge(database, key, "msg_1")
        addresses = Addresses(allow_private=True, resolve=resolve)
        async with delivering(database, addresses=addresses):
            await settled(database, webhook, status="delivered")

    assert asked == ["hooks.invalid"]
    assert receiver.posts[0].headers["host"] == url.split("/")[2]


async def test_replaying_sends_the_same_message_again(database: Database, key: KeyRecord) -> None:
    service = webhooks_over(database)
    async with a_receiver(500, 200) as receiver, delivering(database, pace=replace(QUICK, schedule=())):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        await settled(database, webhook, status="failed")
        replayed = await service.replay(key.account_id, str(webhook.id), receiver.ids[0])
        (delivery,) = await settled(database, webhook, status="delivered")

    assert (replayed.status, replayed.attempts) == ("pending", 0)
    assert delivery.attempts == 1
    assert receiver.posts[0].body == receiver.posts[1].body
    assert len(set(receiver.ids)) == 1


async def test_replaying_a_window_sends_what_did_not_arrive(database: Database, key: KeyRecord) -> None:
    service = webhooks_over(database)
    async with a_receiver(204, 500) as receiver, delivering(database, pace=replace(QUICK, schedule=())):
        webhook, _ = await register(database, key, receiver.url)
        for number in range(3):
            await charge(database, key, f"msg_{number}")
            found = await settled(database, webhook)
        assert [each.status for each in found] == ["delivered", "failed", "failed"]
        window = found[1].created_at, found[2].created_at
        receiver.statuses = (204,)

        first = await service.replay_failed(key.account_id, str(webhook.id), since=window[0], until=window[1])
        await settled(database, webhook)
        rest = await service.replay_failed(
            key.account_id, str(webhook.id), since=found[0].created_at, until=None
        )
        await settled(database, webhook, status="delivered")

    assert (first, rest) == (1, 1)
    assert len(receiver.posts) == 5


async def test_a_new_secret_signs_what_is_tried_again(database: Database, key: KeyRecord) -> None:
    async with a_receiver(500, 200) as receiver:
        webhook, old = await register(database, key, receiver.url)
        _, new = await webhooks_over(database).rotate_secret(key.account_id, str(webhook.id))
        await charge(database, key, "msg_1")
        async with delivering(database):
            await settled(database, webhook, status="delivered")

    assert old != new
    assert all(post.verified(new) for post in receiver.posts)


async def test_a_database_that_is_away_is_waited_for(
    database: Database, key: KeyRecord, postgres: str, database_url: str
) -> None:
    name = database_url.rpartition("/")[2]
    admin = await asyncpg.connect(postgres)
    try:
        async with a_receiver(holds=True) as receiver, delivering(database, pace=SHORT_LEASE) as deliverer:
            webhook, _ = await register(database, key, receiver.url)
            await charge(database, key, "msg_1")
            await until_so(lambda: receiver.at_once == 1)
            await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
            )
            # It arrives, and nobody can write that down.
            receiver.let_go.set()
            await until_so(lambda: not deliverer._under_way)
            await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
            (delivery,) = await settled(database, webhook, status="delivered")
    finally:
        await admin.close()

    assert delivery.attempts == len(receiver.posts) == 2
    assert len(set(receiver.ids)) == 1


async def test_old_deliveries_are_forgotten(database: Database, key: KeyRecord) -> None:
    async with a_receiver() as receiver:
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1", "msg_2")
        await age(database, "created_at", "31 days")
        await charge(database, key, "msg_3")
        async with delivering(database):

            async def only_the_new_one_is_left() -> bool:
                return [each.status for each in await deliveries(database, webhook)] == ["delivered"]

            await until(only_the_new_one_is_left)


async def test_a_stopped_deliverer_leaves_at_once(database: Database, key: KeyRecord) -> None:
    async with a_receiver(holds=True) as receiver:
        await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        async with asyncio.timeout(5):
            async with delivering(database, pace=Pace(look_every_s=0.02)):
                await until_so(lambda: receiver.at_once == 1)
