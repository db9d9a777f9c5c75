"""Machines with journals of their own on one database: of a machine that is lost, its rows remain."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.auth.records import KeyRecord
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.open_message_delivery import OpenMessageDelivery, recover_receipts
from app.billing.receipts.open_messages.in_memory import REWRITE_S
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import Receipt
from app.billing.reports.service import BillingReports
from app.ids import RunKey, new_uuid
from app.platform.db import Database
from app.usage.records import TokenUsage, UsageFact
from tests.factories import a_fact

USD_OF_100 = Decimal("0.0045")
"""What 1000 tokens of input and 100 of output cost."""
PLACEHOLDER = "unanswered-1"


@dataclass(slots=True)
class Machine:
    """A process whose deliveries are called by hand."""

    database: Database
    journal: Journal
    queue: ReceiptQueue
    rows: OpenMessageDelivery
    seconds: float = 0.0

    @classmethod
    def on(cls, database: Database, directory: Path) -> "Machine":
        """With its journal in this directory."""
        journal = Journal(directory, new_uuid())
        queue = ReceiptQueue(journal, PriceList())
        machine = cls(database, journal, queue, OpenMessageDelivery(database, queue))
        queue.open_messages.now = lambda: machine.seconds
        return machine

    async def write_rows(self) -> None:
        """Write the messages in progress, after a pause."""
        self.seconds += REWRITE_S
        await self.rows.write()

    async def deliver(self) -> None:
        """Store what is queued."""
        await ReceiptDelivery(self.database, self.queue).aclose()

    async def take_over(self, run: RunKey, *, attempt: int = 0) -> None:
        """Charge what a run left in progress."""
        async with self.database.read() as reader:
            await recover_receipts(reader, self.queue, run, attempt=attempt)
        await self.deliver()

    async def sweep(self) -> None:
        """Charge what no run in progress has begun."""
        await self.rows.sweep(age_s=0)
        await self.deliver()

    async def recover(self) -> None:
        """Charge what journals in this directory have."""
        self.queue.recover()
        await self.deliver()
        await self.rows.write()


@asynccontextmanager
async def a_machine(database: Database, directory: Path) -> AsyncIterator[Machine]:
    """A machine that is lost at the end."""
    machine = Machine.on(database, directory)
    yield machine
    machine.journal.close()


async def receipts_of(database: Database, run: RunKey) -> Sequence[Receipt]:
    return await BillingReports(database).of_run(run)


def used(output: int, key: KeyRecord, message: str = "msg_1", **fields: Any) -> UsageFact:
    return a_fact(key, message, usage=TokenUsage(input_tokens=1000, output_tokens=output), **fields)


async def rows(database: Database) -> int:
    async with database.read() as reader:
        return int((await reader.exec_driver_sql("SELECT count(*) FROM open_messages")).scalar_one())


async def charged(database: Database, run: RunKey) -> list[tuple[str, str, int]]:
    return [(r.usage_unit_id, r.basis, r.output_tokens) for r in await receipts_of(database, run)]


async def cost(database: Database, run: RunKey) -> Decimal:
    return sum((receipt.cost_usd for receipt in await receipts_of(database, run)), Decimal(0))


async def lose_machine(database: Database, directory: Path, *facts: UsageFact) -> None:
    """A machine is lost when these messages were in progress, and their rows written."""
    async with a_machine(database, directory) as lost:
        for fact in facts:
            lost.queue.start_message(fact)
        await lost.write_rows()
