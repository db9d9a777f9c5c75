"""A receipt is counted by one process and once, whoever was to store it and however often."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.prices.library import model_key
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery, debit_undelivered
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reports.service import BillingReports
from app.ids import new_uuid
from app.platform.db import Database
from app.platform.metrics.families import KnownNames
from app.platform.metrics.receipts import ReceiptMetrics
from app.usage.records import UsageFact
from tests.factories import a_fact
from tests.integration.test_an_attempt_is_over import a_run, take_over

MODEL = "claude-sonnet-4-6"
LABELS = {"basis": "final", "origin": "assistant", "model": MODEL}


async def counted(
    database: Database,
    directory: Path,
    *facts: UsageFact,
    before: Callable[[ReceiptQueue], Awaitable[None]] | None = None,
) -> tuple[float, float, float]:
    """Deliver these as a process does; its receipts, their credits, and how many have a lag."""
    registry, journal = CollectorRegistry(), Journal(directory, new_uuid())
    metrics = ReceiptMetrics(registry, models=KnownNames(frozenset({MODEL}), model_key))
    queue = ReceiptQueue(journal, PriceList(), metrics=metrics)
    delivery = ReceiptDelivery(database, queue, metrics=metrics)
    for fact in facts:
        queue.start_message(fact)
        queue.complete_message(fact)
        queue.record(fact)
    if before is not None:
        await before(queue)
    await delivery.aclose()
    journal.close()
    found = (
        registry.get_sample_value("runtally_receipts_total", LABELS),
        registry.get_sample_value("runtally_charged_credits_total", {"model": MODEL}),
        registry.get_sample_value("runtally_receipt_lag_seconds_count"),
    )
    receipts, credits_, lags = (value or 0.0 for value in found)
    return receipts, credits_, lags


async def test_each_receipt_is_counted_by_the_process_that_charges_it(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    fact = a_fact(key, model=f"{MODEL}-20260101")

    async def end_run(queue: ReceiptQueue) -> None:
        async with database.transaction() as tx:
            await debit_undelivered(tx, queue, fact.run)

    by_the_end_of_its_run = await counted(database, tmp_path / "1", fact, before=end_run)
    by_another = await counted(database, tmp_path / "2", fact)
    another = await counted(database, tmp_path / "3", fact, a_fact(key, "msg_2", model=MODEL))

    receipts = await BillingReports(database).of_run(fact.run)
    charged = [receipt.charged_credits for receipt in receipts]
    assert by_the_end_of_its_run == (1, charged[0], 1)
    assert by_another == (0, 0, 0)
    assert another == (1, charged[1], 1)


async def test_what_is_not_charged_is_not_counted_but_logged_once(database: Database, tmp_path: Path) -> None:
    key, run = await a_run(database)
    await take_over(database, run)
    fenced = a_fact(key, "msg_1", at=datetime.now(UTC) + timedelta(seconds=10))

    async def end_run(queue: ReceiptQueue) -> None:
        async with database.transaction() as tx:
            await debit_undelivered(tx, queue, fenced.run)

    another = a_fact(key, "msg_2", at=fenced.at)
    with capture_logs() as logs:
        assert await counted(database, tmp_path / "1", fenced, before=end_run) == (0, 0, 0)
        assert await counted(database, tmp_path / "2", another) == (0, 0, 0)
    assert [(log["event"], log["source_reference"]) for log in logs] == [
        ("receipt.fenced", fact.source_reference) for fact in (fenced, another)
    ]
