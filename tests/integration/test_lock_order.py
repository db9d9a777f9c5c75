"""Transactions that lock the same rows do so in one order: PostgreSQL never has to end one of them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.open_messages.records import OpenMessage
from app.billing.receipts.open_messages.repository import lock_open_messages, write_open_messages
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.platform.db import Database, Transaction
from tests.factories import a_fact
from tests.integration.statements import scalar
from tests.patience import PATIENCE_S

Work: TypeAlias = Callable[[], Coroutine[Any, Any, object]]


async def until_waiting(database: Database, tasks: "list[asyncio.Task[object]]") -> None:
    """Wait until each of these that is not done waits for a lock."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            waiting = await scalar(database, "SELECT count(*) FROM pg_locks WHERE NOT granted")
            if waiting >= sum(not task.done() for task in tasks):
                return
            await asyncio.sleep(0.01)


async def released_together(database: Database, locked: str, *works: Work) -> None:
    """Let all of these wait for what a statement locks, as far as they do; all have to succeed."""
    tasks = list[asyncio.Task[object]]()
    async with database.transaction() as tx:
        await tx.execute(text(locked))
        for work in works:
            tasks.append(asyncio.create_task(work()))
            await until_waiting(database, tasks)
    await asyncio.gather(*tasks)


def within(database: Database, change: Callable[[Transaction], Awaitable[object]]) -> Work:
    async def work() -> None:
        async with database.transaction() as tx:
            await change(tx)

    return work


def receipts_of(key: KeyRecord, *messages: str) -> list[NewReceipt]:
    facts = [a_fact(key, message) for message in messages]
    charges = [PriceList().charge(BilledUsage.of(fact), at=fact.at) for fact in facts]
    return [NewReceipt.of(fact, charge, "final") for fact, charge in zip(facts, charges, strict=True)]


async def test_a_message_that_is_recovered_while_its_process_delivers_it(
    database: Database, key: KeyRecord
) -> None:
    fact = a_fact(key)
    async with database.write() as tx:
        await write_open_messages(tx, [OpenMessage(fact, is_complete=True)])

    async with database.transaction() as tx:
        await lock_open_messages(tx, [fact.key])
        delivery = asyncio.create_task(
            within(database, lambda tx: insert_receipts(tx, receipts_of(key, "msg_1")))()
        )
        await until_waiting(database, [delivery])
        await insert_receipts(tx, receipts_of(key, "msg_1"))
    await delivery

    assert await scalar(database, "SELECT count(*) FROM charge_receipts") == 1


@pytest.mark.parametrize("is_delivered", [True, False])
async def test_messages_are_closed_in_the_order_in_which_they_are_written(
    database: Database, key: KeyRecord, *, is_delivered: bool
) -> None:
    first, second = (OpenMessage(a_fact(key, message), is_complete=True) for message in ("msg_1", "msg_2"))
    for message in (second, first):
        async with database.write() as tx:
            await write_open_messages(tx, [message])

    async def close(tx: Transaction) -> None:
        if is_delivered:
            await insert_receipts(tx, receipts_of(key, "msg_1", "msg_2"))
        else:
            await write_open_messages(tx, [], removed=[second.fact.key, first.fact.key])

    async with database.transaction() as tx:
        await write_open_messages(tx, [first])
        closing = asyncio.create_task(within(database, close)())
        await until_waiting(database, [closing])
        await write_open_messages(tx, [second])
    await closing

    assert await scalar(database, "SELECT count(*) FROM open_messages") == 0
