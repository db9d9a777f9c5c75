import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from structlog.testing import capture_logs

from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.ids import RunId, RunKey
from app.usage.records import TokenUsage
from tests.patience import PATIENCE_S
from tests.unit.billing.receipts.journals import ACCOUNT, AT, JournalDirectory, a_fact, recovered

RUN = a_fact().run


@pytest.fixture
def journal(journals: JournalDirectory) -> Iterator[Journal]:
    journal = journals.journal()
    yield journal
    journal.close()


@pytest.fixture
def queue(journal: Journal) -> ReceiptQueue:
    return ReceiptQueue(journal, PriceList())


def queued(queue: ReceiptQueue) -> list[tuple[str, str]]:
    return [(each.fact.message_id, each.receipt.basis) for each in queue.first(100)]


async def test_a_message_with_other_numbers_is_charged_for_what_it_used_more(queue: ReceiptQueue) -> None:
    queue.record(a_fact(output=5))
    with capture_logs() as logs:
        queue.record(a_fact(output=5))
        queue.record(a_fact(output=3))
        queue.record(a_fact(output=9))
        queue.record(a_fact(output=9))

    assert [(each.fact.message_id, each.receipt.output_tokens) for each in queue.first(9)] == [
        ("msg_1", 5),
        ("msg_1~more", 4),
    ]
    assert queue.first(9)[1].receipt.input_tokens == 0
    assert {entry["event"] for entry in logs} == {"receipt.conflict"}


async def test_messages_that_no_executor_reported_are_queued_when_the_run_is_flushed(
    queue: ReceiptQueue,
) -> None:
    queue.start_message(replace(a_fact("msg_1"), basis="partial"))
    queue.start_message(a_fact("msg_2"))
    queue.complete_message(a_fact("msg_2", output=9))

    with capture_logs() as logs:
        await queue.flush(RUN, within_s=0)

    assert queued(queue) == [("msg_1", "partial"), ("msg_2", "final")]
    assert [entry["event"] for entry in logs] == ["receipt.message_unreported"] * 2


async def test_a_flush_returns_as_soon_as_the_runs_receipts_are_stored(queue: ReceiptQueue) -> None:
    queue.record(a_fact("msg_1"))
    other = replace(a_fact("msg_2"), run=RunKey(ACCOUNT, RunId("run-2")))
    queue.record(other)

    async with asyncio.timeout(PATIENCE_S):
        flushing = asyncio.create_task(queue.flush(RUN, within_s=10 * PATIENCE_S))
        await queue.acknowledge(queue.first(1))
        await flushing

    assert queued(queue) == [("msg_2", "final")]


async def test_a_voided_message_is_neither_charged_nor_recovered(
    queue: ReceiptQueue, journals: JournalDirectory
) -> None:
    queue.start_message(a_fact())
    queue.void_message(a_fact())

    await queue.flush(RUN, within_s=0)

    assert queued(queue) == []
    assert journals.remaining() == []


async def test_a_refused_receipt_leaves_the_queue_and_stays_in_the_journal(
    journals: JournalDirectory,
) -> None:
    journal = journals.journal()
    queue = ReceiptQueue(journal, PriceList())
    queue.record(a_fact("msg_1"))
    queue.record(a_fact("msg_2"))
    first, second = queue.first(2)

    await queue.set_aside(first)
    await queue.acknowledge([second])
    assert (len(queue), queue.refused) == (0, 1)
    queue.record(first.fact)
    assert len(queue) == 0
    journal.close()

    assert journals.remaining() == [recovered(first.fact)]


async def test_a_refused_receipt_counts_as_charged_until_it_is_stored(queue: ReceiptQueue) -> None:
    queue.record(a_fact("msg_1"))
    (pending,) = queue.first(1)
    credits_ = queue.pending_credits(RUN).total

    await queue.set_aside(pending)
    async with asyncio.timeout(PATIENCE_S):
        # Waiting for it would not help a call.
        await queue.wait_delivered(ACCOUNT, within_s=10 * PATIENCE_S)
    refused = queue.pending_credits(RUN).total
    queue.retry_refused()
    retried = queue.pending_credits(RUN).total
    await queue.acknowledge(queue.first(1))

    assert credits_ == refused == retried > 0
    assert queue.pending_credits(RUN).total == 0


async def test_pending_credits_are_those_of_completed_and_of_queued_messages(queue: ReceiptQueue) -> None:
    queue.start_message(a_fact("in progress"))
    nothing = queue.pending_credits(RUN).total
    queue.complete_message(a_fact("msg_1"))
    completed = queue.pending_credits(RUN).total
    queue.record(a_fact("msg_1"))
    recorded = queue.pending_credits(RUN).total
    elsewhere = queue.pending_credits(RunKey(ACCOUNT, RunId("run-2"))).total
    await queue.acknowledge(queue.first(1))

    assert nothing == 0
    assert completed == recorded == elsewhere > 0
    assert queue.pending_credits(RUN).total == 0


async def test_waiting_for_delivery_ends_after_its_time(queue: ReceiptQueue) -> None:
    queue.record(a_fact())

    async with asyncio.timeout(PATIENCE_S):
        await queue.wait_delivered(ACCOUNT, within_s=0.01)
        waiting = asyncio.create_task(queue.wait_delivered(ACCOUNT, within_s=10 * PATIENCE_S))
        await queue.acknowledge(queue.first(1))
        await waiting

    assert len(queue) == 0


async def test_the_queue_wakes_its_delivery_only_while_it_holds_receipts(queue: ReceiptQueue) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await queue.wait_not_empty()
    queue.record(a_fact())
    async with asyncio.timeout(PATIENCE_S):
        await queue.wait_not_empty()
    await queue.acknowledge(queue.first(1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await queue.wait_not_empty()


async def test_a_message_has_the_price_of_its_moment_whenever_it_is_recorded(journal: Journal) -> None:
    million, moments = TokenUsage(1_000_000), (AT, AT + timedelta(hours=1))
    rates = [Rate(Decimal(dollars)) for dollars in (1, 2)]
    prices = [
        OperatorPrice(a_fact().model, since, ModelPrice("file", rate, rate, rate, rate, rate))
        for since, rate in zip(moments, rates, strict=True)
    ]
    queue = ReceiptQueue(journal, PriceList(prices))

    for number, moment in enumerate(moments):
        queue.record(replace(a_fact(f"msg_{number}"), usage=million, at=moment))

    assert [each.receipt.cost_usd for each in queue.first(9)] == [1, 2]


async def test_a_message_without_a_price_is_queued_for_nothing(queue: ReceiptQueue) -> None:
    with capture_logs() as logs:
        queue.record(replace(a_fact(), model="claude-unheard-of-9"))

    (pending,) = queue.first(1)
    assert (pending.receipt.basis, pending.receipt.charged_credits) == ("unpriced", 0)
    assert [entry["event"] for entry in logs] == ["receipt.unpriced"]


async def test_a_row_of_a_message_adds_nothing_to_what_this_process_knows(
    queue: ReceiptQueue, journals: JournalDirectory
) -> None:
    queue.start_message(a_fact("in progress"))
    queue.record(a_fact("queued"))
    crashed = journals.journal()
    crashed.start_message(a_fact("void"))
    crashed.void_message(a_fact("void").key)
    crashed.start_message(a_fact("placeholder"))
    crashed.start_message(a_fact("replacement"), replaces=a_fact("placeholder").key)
    crashed.void_message(a_fact("placeholder").key)
    crashed.close()
    queue.recover()

    names = ("in progress", "queued", "void", "placeholder", "replacement", "unknown")
    recovered_rows = [name for name in names if queue.recover_message(a_fact(name, output=99))]

    assert recovered_rows == ["unknown"]
    assert queued(queue) == [("queued", "final"), ("replacement", "partial"), ("unknown", "final")]
    assert [each.from_row for each in queue.first(9)] == [False, False, True]


async def test_a_queued_row_is_completed_by_a_journal(
    queue: ReceiptQueue, journals: JournalDirectory
) -> None:
    crashed = journals.journal()
    crashed.complete_message(a_fact(output=9))
    crashed.close()

    queue.recover_message(a_fact(output=5))
    with capture_logs() as logs:
        queue.recover()

    assert [(each.fact.message_id, each.receipt.output_tokens) for each in queue.first(9)] == [
        ("msg_1", 5),
        ("msg_1~more", 4),
    ]
    assert "receipt.conflict" in {entry["event"] for entry in logs}


async def test_the_oldest_receipt_that_waits_is_known_also_if_it_is_moved_or_refused(
    queue: ReceiptQueue,
) -> None:
    assert (queue.oldest_s, queue.journalled) == (0, 0)
    for name in ("msg_1", "msg_2"):
        queue.start_message(a_fact(name))
        queue.complete_message(a_fact(name))
        queue.record(a_fact(name))
        await asyncio.sleep(0.01)
    first, second = queue.first(2)
    oldest_s = queue.oldest_s

    assert first.ended_at is not None
    assert oldest_s >= 0.02
    queue.postpone(first)
    await queue.set_aside(first)
    assert (queue.oldest_s >= oldest_s, queue.journalled) == (True, 2)
    await queue.acknowledge([second])
    assert queue.oldest_s >= oldest_s
    queue.retry_refused()
    assert queue.oldest_s >= oldest_s
    await queue.acknowledge(queue.first(1))
    assert (queue.oldest_s, queue.journalled) == (0, 0)


async def test_the_end_of_a_message_is_forgotten_with_it(queue: ReceiptQueue) -> None:
    for number in range(3):
        queue.start_message(a_fact(f"msg_{number}"))
        queue.complete_message(a_fact(f"msg_{number}"))
    queue.void_message(a_fact("msg_0"))
    queue.record(a_fact("msg_1"))
    queue.complete_message(a_fact("msg_1"))
    await queue.flush(RUN, within_s=0.01)

    assert queue._ended_at == {}
