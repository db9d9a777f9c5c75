"""The deliverer over a real database, towards real servers on loopback."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import asyncpg

from app.auth.records import KeyRecord
from app.platform.clock.clock import Clock, host_time
from app.platform.db import Database
from app.platform.telemetry.service import Telemetry
from app.webhooks.delivery_repository import (
    claim_due_deliveries,
    delete_old_deliveries,
    record_delivered,
    record_failed_attempt,
    record_final_failure,
)
from app.webhooks.delivery_worker import KEPT, DeliveryConfig
from app.webhooks.records import ClaimedDelivery
from app.webhooks.retries import ReceiverResponse
from tests.e2e.stories import until as until_so
from tests.factories import an_account
from tests.integration.statements import execute, until
from tests.integration.webhook_seam import (
    QUICK,
    charge,
    deliveries,
    delivering,
    now,
    register,
    settled,
    webhooks_over,
)
from tests.patience import PATIENCE_S
from tests.receivers import a_receiver
from tests.unit.platform.telemetry.spans_in_memory import InMemory

SHORT_LEASE = replace(QUICK, lease=timedelta(seconds=0.5))


async def age(database: Database, column: str, interval: str) -> None:
    """Move a column of every delivery or webhook into the past."""
    table = "webhooks" if column == "failing_since" else "webhook_deliveries"
    await execute(database, f"UPDATE {table} SET {column} = {column} - INTERVAL '{interval}'")  # noqa: S608


async def test_a_delivery_is_signed_and_contains_the_event(database: Database, key: KeyRecord) -> None:
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


async def test_a_receiver_believes_a_server_whose_clock_is_wrong(database: Database, key: KeyRecord) -> None:
    clock = Clock(host=lambda: now() + timedelta(minutes=10))
    clock.observe("database", now())
    clock.observe("provider", now())
    async with a_receiver() as receiver, delivering(database, clock=clock):
        webhook, secret = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        await settled(database, webhook, status="delivered")

    assert receiver.posts[0].verified(secret)


async def test_a_failed_delivery_is_repeated_as_the_same_message(database: Database, key: KeyRecord) -> None:
    memory = InMemory()
    telemetry = Telemetry(memory.spans, memory.metrics)
    async with a_receiver(500, 500, 200) as receiver, delivering(database, telemetry=telemetry):
        webhook, secret = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook, status="delivered")

    assert len(receiver.posts) == delivery.attempts == 3
    spans = [(span.name, dict(span.attributes or {})) for span in memory.finished]
    assert {name for name, _ in spans} == {"deliver_webhook receipt.created"}
    assert [(each["runtally.webhook.attempt"], each.get("error.type")) for _, each in spans] == [
        (1, "500"),
        (2, "500"),
        (3, None),
    ]
    assert {each["runtally.run_id"] for _, each in spans} == {"run-1"}
    assert receiver.url not in str(spans)
    assert len(set(receiver.ids)) == 1
    assert len({post.body for post in receiver.posts}) == 1
    assert all(post.verified(secret) for post in receiver.posts)


async def test_after_the_last_attempt_a_delivery_has_failed(database: Database, key: KeyRecord) -> None:
    async with a_receiver(500) as receiver, delivering(database):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook)

    assert (delivery.status, delivery.attempts) == ("failed", len(QUICK.retry_schedule) + 1)
    assert (delivery.last_status, delivery.last_error) == (500, "bad_status")
    assert (await webhooks_over(database).get(key.account_id, str(webhook.id))).enabled


async def test_the_next_attempt_waits_as_planned(database: Database, key: KeyRecord) -> None:
    config = replace(QUICK, retry_schedule=(timedelta(minutes=5),))
    async with (
        a_receiver(500) as receiver,
        a_receiver(503, headers={"retry-after": "1800"}) as busy,
        delivering(database, config=config),
    ):
        plain, _ = await register(database, key, receiver.url)
        postponing, _ = await register(database, key, busy.url)
        await charge(database, key, "msg_1")
        (planned,) = await settled(database, plain, last_status=500)
        (postponed,) = await settled(database, postponing, last_status=503)

    assert timedelta(minutes=4) < planned.next_attempt_at - now() < timedelta(minutes=6)
    assert timedelta(minutes=29) < postponed.next_attempt_at - now() < timedelta(minutes=31)


async def test_status_410_disables_the_webhook_and_cancels_its_deliveries(
    database: Database, key: KeyRecord
) -> None:
    async with a_receiver(410) as receiver:
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1", "msg_2", "msg_3", "msg_4", "msg_5", "msg_6")
        async with delivering(database, config=replace(QUICK, max_per_webhook=1)):
            found = await settled(database, webhook)
        await charge(database, key, "msg_7")

    shown = await webhooks_over(database).get(key.account_id, str(webhook.id))
    assert (shown.enabled, shown.disabled_reason) == (False, "gone")
    assert shown.disabled_at is not None
    assert sorted(each.status for each in found) == ["cancelled"] * 5 + ["failed"]
    assert len(await deliveries(database, webhook)) == 6
    assert len(receiver.posts) == 1


async def test_a_webhook_failing_for_days_is_disabled(database: Database, key: KeyRecord) -> None:
    async with a_receiver(500) as receiver, delivering(database):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        await settled(database, webhook)
        await age(database, "failing_since", "6 days")
        await charge(database, key, "msg_2")
        await settled(database, webhook)

    shown = await webhooks_over(database).get(key.account_id, str(webhook.id))
    assert (shown.enabled, shown.disabled_reason) == (False, "failing")


async def test_one_success_resets_the_failure_period(database: Database, key: KeyRecord) -> None:
    failing = [500] * (len(QUICK.retry_schedule) + 1)
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


async def test_a_receiver_that_never_responds_times_out(database: Database, key: KeyRecord) -> None:
    async with (
        a_receiver(holds=True) as receiver,
        delivering(database, config=replace(QUICK, retry_schedule=()), call_s=0.2),
    ):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        (delivery,) = await settled(database, webhook)

    assert (delivery.status, delivery.last_error) == ("failed", "timeout")


async def test_slow_receivers_do_not_delay_other_accounts(database: Database, key: KeyRecord) -> None:
    other = await an_account(database, "other")
    config = replace(QUICK, max_concurrent=8, max_per_account=4, max_per_webhook=2)
    async with a_receiver(holds=True) as slow, a_receiver() as quick:
        tarpits = [(await register(database, key, slow.url))[0] for _ in range(4)]
        webhook, _ = await register(database, other, quick.url)
        await charge(database, key, *(f"slow_{number}" for number in range(20)))
        async with delivering(database, config=config, call_s=PATIENCE_S):
            await until_so(lambda: slow.at_once == config.max_per_account)
            await charge(database, other, *(f"quick_{number}" for number in range(20)))
            found = await settled(database, webhook, status="delivered")
            held = slow.most_at_once
            slow.let_go.set()
            for tarpit in tarpits:
                await settled(database, tarpit, status="delivered")

    assert len(found) == len(quick.posts) == 20
    assert held == config.max_per_account
    assert len(set(slow.ids)) == len(slow.posts) == 80


async def test_a_slow_webhook_leaves_slots_for_another(database: Database, key: KeyRecord) -> None:
    config = replace(QUICK, max_concurrent=8, max_per_account=4, max_per_webhook=2)
    async with a_receiver(holds=True) as slow, a_receiver() as quick, delivering(database, config=config):
        await register(database, key, slow.url)
        webhook, _ = await register(database, key, quick.url)
        await charge(database, key, *(f"msg_{number}" for number in range(20)))
        found = await settled(database, webhook, status="delivered")

    assert len(found) == len(quick.posts) == 20
    assert slow.most_at_once == config.max_per_webhook


async def test_deliveries_of_a_dead_process_are_made_again(database: Database, key: KeyRecord) -> None:
    async with a_receiver(holds=True) as receiver:
        webhook, secret = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        async with delivering(database, config=SHORT_LEASE):
            await until_so(lambda: receiver.at_once == 1)
        receiver.let_go.set()
        async with delivering(database, config=SHORT_LEASE):
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


async def test_an_expired_claim_stores_nothing(database: Database, key: KeyRecord) -> None:
    webhook, _ = await register(database, key)
    await charge(database, key, "msg_1")

    async def claim(lease: timedelta) -> ClaimedDelivery:
        async with database.transaction() as tx:
            (claimed,) = await claim_due_deliveries(
                tx, limit=9, lease=lease, excluded_webhooks=[], excluded_accounts=[]
            )
        return claimed

    ended, current = await claim(timedelta(0)), await claim(timedelta(minutes=1))
    before = await deliveries(database, webhook)
    async with database.transaction() as tx:
        await record_failed_attempt(tx, ended, ReceiverResponse(500, "bad_status"), retry_in=timedelta(0))
        await record_delivered(tx, ended, ReceiverResponse(200))
        assert not await record_final_failure(tx, ended, ReceiverResponse(500, "bad_status"))
    unchanged = await deliveries(database, webhook)
    async with database.transaction() as tx:
        await record_delivered(tx, current, ReceiverResponse(204))
    (delivery,) = await deliveries(database, webhook)

    assert (ended.id, ended.attempts, current.attempts) == (current.id, 1, 2)
    assert unchanged == before
    assert (delivery.status, delivery.last_status) == ("delivered", 204)


async def test_replaying_sends_the_same_message_again(database: Database, key: KeyRecord) -> None:
    service = webhooks_over(database)
    async with (
        a_receiver(500, 200) as receiver,
        delivering(database, config=replace(QUICK, retry_schedule=())),
    ):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        await settled(database, webhook, status="failed")
        replayed = await service.replay(key.account_id, str(webhook.id), receiver.ids[0])
        (delivery,) = await settled(database, webhook, status="delivered")

    assert (replayed.status, replayed.attempts) == ("pending", 0)
    assert delivery.attempts == 1
    assert receiver.posts[0].body == receiver.posts[1].body
    assert len(set(receiver.ids)) == 1


async def test_replaying_an_active_delivery_is_safe(database: Database, key: KeyRecord) -> None:
    async with a_receiver(holds=True) as receiver, delivering(database):
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        await until_so(lambda: receiver.at_once == 1)
        await webhooks_over(database).replay(key.account_id, str(webhook.id), receiver.ids[0])
        await until_so(lambda: receiver.at_once == 2)
        receiver.let_go.set()
        await settled(database, webhook, status="delivered")
        await charge(database, key, "msg_2")
        found = await settled(database, webhook, status="delivered")

    assert len(found) == 2
    assert len(receiver.posts) == 3


async def test_replaying_a_window_sends_failed_deliveries(database: Database, key: KeyRecord) -> None:
    service = webhooks_over(database)
    async with (
        a_receiver(204, 500) as receiver,
        delivering(database, config=replace(QUICK, retry_schedule=())),
    ):
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


async def test_retries_are_signed_with_the_new_secret(database: Database, key: KeyRecord) -> None:
    async with a_receiver(500, 200) as receiver:
        webhook, old = await register(database, key, receiver.url)
        _, new = await webhooks_over(database).rotate_secret(key.account_id, str(webhook.id))
        await charge(database, key, "msg_1")
        async with delivering(database):
            await settled(database, webhook, status="delivered")

    assert old != new
    assert all(post.verified(new) for post in receiver.posts)


async def test_the_worker_waits_for_an_unavailable_database(
    database: Database, key: KeyRecord, postgres: str, database_url: str
) -> None:
    name = database_url.rpartition("/")[2]
    admin = await asyncpg.connect(postgres)
    try:
        async with a_receiver(holds=True) as receiver, delivering(database, config=SHORT_LEASE) as deliverer:
            webhook, _ = await register(database, key, receiver.url)
            await charge(database, key, "msg_1")
            await until_so(lambda: receiver.at_once == 1)
            await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
            )
            # It arrives, and nobody can write that down.
            receiver.let_go.set()
            await until_so(lambda: not deliverer._active)
            await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
            (delivery,) = await settled(database, webhook, status="delivered")
    finally:
        await admin.close()

    assert delivery.attempts == len(receiver.posts) == 2
    assert len(set(receiver.ids)) == 1


async def test_old_deliveries_are_deleted(database: Database, key: KeyRecord) -> None:
    async with a_receiver() as receiver:
        webhook, _ = await register(database, key, receiver.url)
        await charge(database, key, "msg_1", "msg_2")
        await age(database, "created_at", "31 days")
        await charge(database, key, "msg_3")
        async with database.transaction() as tx:
            # The database's clock has jumped: by the server's own, they are not old.
            until_ = host_time() - timedelta(days=2)
            assert await delete_old_deliveries(tx, age=KEPT, until=until_, limit=9) == 0
        async with delivering(database):

            async def only_the_new_one_is_left() -> bool:
                return [each.status for each in await deliveries(database, webhook)] == ["delivered"]

            await until(only_the_new_one_is_left)


async def test_a_stopped_worker_ends_at_once(database: Database, key: KeyRecord) -> None:
    async with a_receiver(holds=True) as receiver:
        await register(database, key, receiver.url)
        await charge(database, key, "msg_1")
        async with asyncio.timeout(PATIENCE_S):
            async with delivering(database, config=DeliveryConfig(poll_interval_s=0.02)):
                await until_so(lambda: receiver.at_once == 1)
