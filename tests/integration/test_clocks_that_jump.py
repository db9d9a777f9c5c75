"""Clocks that jump: of the host, and of a real PostgreSQL, whose functions are replaced by planted ones."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.budgets.service import Budgets
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import month_of
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.open_messages.records import OpenMessage
from app.billing.receipts.open_messages.repository import find_abandoned_messages, write_open_messages
from app.billing.receipts.queue import ReceiptQueue
from app.executors.metering import BilledMetering
from app.gateway.answer_usage import MessageUsage
from app.gateway.channel import CallRefused, Channel, ChannelLimits
from app.gateway.estimate import CallSize
from app.ids import MessageId, RunId, RunKey, new_uuid
from app.platform.clock.clock import Clock
from app.platform.db import Database
from app.runs.dispatch.limits import DispatchLimits
from app.runs.dispatch.records import Worker
from app.runs.recovery.repository import record_worker
from app.usage.records import Attribution, TokenUsage
from tests.e2e.stories import until
from tests.factories import a_budget, a_fact, a_plan, an_account, an_open_database
from tests.integration.run_process import ELSEWHERE
from tests.integration.run_queue import Queue
from tests.integration.run_service import ONCE, a_core, a_lost_run, beat
from tests.integration.statements import execute
from tests.integration.webhook_seam import charge, delivering, payloads, register
from tests.patience import PATIENCE_S
from tests.receivers import a_receiver

MODEL = "claude-sonnet-4-6"
USED = TokenUsage(input_tokens=1_000_000)
MESSAGE = 30_000_000
"""Its credits."""

_MINUTE = timedelta(minutes=1)
JUMPS = [timedelta(days=62), timedelta(days=-62)]


class Host:
    """A host whose clock can be set."""

    off = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.off


async def plant(url: str, off: timedelta, functions: Sequence[str] = ("now", "clock_timestamp")) -> None:
    """Set the clock of a database, for connections that are opened or have been since it was set first."""
    admin = await asyncpg.connect(url)
    for function in functions:
        await admin.execute(
            f"CREATE OR REPLACE FUNCTION public.{function}() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
            f"$$ SELECT pg_catalog.{function}() + interval '{off.total_seconds()} seconds' $$"
        )
    await admin.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET search_path = public, pg_catalog")
    await admin.close()


@asynccontextmanager
async def planted_time(url: str, off: timedelta) -> AsyncIterator[Database]:
    """A database whose clock is off, for connections that are opened now."""
    await plant(url, off)
    async with an_open_database(url) as database:
        yield database


@asynccontextmanager
async def billing(database: Database, directory: Path, clock: Clock) -> AsyncIterator[BilledMetering]:
    journal = Journal(directory, new_uuid())
    queue = ReceiptQueue(journal, PriceList())
    delivering = asyncio.create_task(ReceiptDelivery(database, queue).work())
    try:
        yield BilledMetering(queue, CreditLedger(database, clock), PriceList(), clock=clock)
    finally:
        delivering.cancel()
        await asyncio.wait({delivering})
        journal.close()


async def use(channel: Channel, number: int) -> None:
    """One message of a run."""
    size = CallSize(MODEL, USED, TokenUsage(input_tokens=1))
    async with channel.call(size) as call:
        call.on_usage(MessageUsage(MessageId(f"msg_{number}"), MODEL, USED, complete=True))


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("whose", ["host", "database"])
async def test_a_jump_neither_opens_a_budget_nor_charges_to_another_month(
    database: Database, database_url: str, tmp_path: Path, whose: str, jump: timedelta
) -> None:
    key, host = await an_account(database), Host()
    run = RunKey(key.account_id, RunId("run-1"))
    async with planted_time(database_url, jump if whose == "database" else timedelta()) as planted:
        clock = Clock(host.now)
        clock.observe("provider", datetime.now(UTC))
        clock.observe("database", await planted.time())
        async with billing(planted, tmp_path, clock) as metering:
            await Budgets(planted, clock).set_budget(key.account_id, a_budget(credits=2 * MESSAGE))
            plan = a_plan(run=run, model=MODEL, attribution=Attribution(key.id, "a:b", None))
            hooks = metering.hooks_for(plan, executor_type="claude_sdk")
            deadline = asyncio.get_running_loop().time() + 60
            channel = Channel("run-1", "t", "u", ChannelLimits(deadline), hooks)
            await use(channel, 1)
            host.off = jump if whose == "host" else timedelta()
            await use(channel, 2)
            # What is delivered counts by its month only.
            await metering.receipts.flush(run, within_s=PATIENCE_S)
            with pytest.raises(CallRefused, match="account_budget"):
                await use(channel, 3)
            await metering.receipts.flush(run, within_s=PATIENCE_S)
            credit = await metering.ledger.balance(key.account_id)

    assert credit.spent_by_month == {month_of(datetime.now(UTC)): 2 * MESSAGE}


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_jump_of_the_database_ends_no_run_of_a_living_process(
    database_url: str, tmp_path: Path, jump: timedelta
) -> None:
    """All heartbeats are from before it, until each process has sent another."""
    async with planted_time(database_url, timedelta()) as planted, a_core(planted, tmp_path) as core:
        run = await a_lost_run(core, ONCE)
        async with planted.write() as tx:
            await record_worker(tx, Worker(ELSEWHERE, "1", 1, 1, draining=False, lease_s=15.0))
        await beat(core)
        # It has sent heartbeats for long enough.
        core.heartbeat._continuous_since = 0.0
        await plant(database_url, jump)
        await beat(core)
        await beat(core)
        waiting = (await core.service.get(run)).status
        # One that sends none is found all the same, even if its last one is in the future now.
        await core.recovery.recover()
        found = (await core.service.get(run)).status

    assert (waiting, found) == ("running", "failed")


async def test_a_heartbeat_that_waited_for_a_lock_is_no_jump(database_url: str, tmp_path: Path) -> None:
    async with planted_time(database_url, timedelta()) as planted, a_core(planted, tmp_path) as core:
        await beat(core)
        # Its transaction began an hour ago.
        await plant(database_url, -timedelta(hours=1), ["now"])
        with capture_logs() as logs:
            await beat(core)

    assert "clock.jumped" not in [entry["event"] for entry in logs]


@pytest.mark.parametrize("jump", JUMPS)
async def test_webhooks_are_notified_of_the_month_that_was_charged(
    database: Database, key: KeyRecord, database_url: str, jump: timedelta
) -> None:
    await register(database, key, events=["budget.reached"])
    async with planted_time(database_url, jump) as planted:
        await Budgets(planted).set_budget(key.account_id, a_budget(credits=500))
        await charge(planted, key, "msg_1", credits_=500)
        (sent,) = [payload["data"] for payload in await payloads(planted)]
        _, used = await Budgets(database).get(key.account_id, "limit")

    assert datetime.fromisoformat(sent["resetsAt"]) == used.resets_at


async def test_what_was_to_wait_by_a_clock_that_went_back_waits_no_longer(
    database: Database, key: KeyRecord, database_url: str
) -> None:
    """Deliveries, messages of runs that are gone, offers to a worker: all from 62 days ahead."""
    fact, limits = (
        a_fact(key, "msg_2", run="gone"),
        DispatchLimits(100, kept_for=_MINUTE, offered_for=_MINUTE),
    )
    async with a_receiver() as receiver, planted_time(database_url, JUMPS[0]) as ahead:
        await register(database, key, receiver.url, ["receipt.created"])
        await charge(database, key, "msg_1")
        await execute(ahead, "UPDATE webhook_deliveries SET next_attempt_at = now()")
        async with ahead.transaction() as tx:
            await write_open_messages(tx, [OpenMessage(fact, is_complete=False)])
        keeps, other = Queue(ahead, limits), Queue(ahead, limits)
        await keeps.join(4)
        await other.join(4)
        await keeps.post(key, "r0", chat="chat", at_once=True)
        await keeps.end(key, "r0")
        offered = await other.post(key, "r1", chat="chat", at_once=True)
        await plant(database_url, timedelta())

        async with ahead.read() as reader:
            found = await find_abandoned_messages(reader, age_s=1, limit=9)
        claimed = await other.claim()
        async with delivering(ahead):
            await until(lambda: bool(receiver.posts))

    assert [message.source_reference for message in found] == [fact.source_reference]
    assert (offered.status, claimed) == ("queued", ["r1"])
