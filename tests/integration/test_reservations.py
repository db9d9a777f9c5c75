"""What runs have set aside is given back, whoever ends them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.billing.credit.ledger import AccountTerms, CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.events import AssistantFinal, UsageReport
from app.executors.metering import usage_fact
from app.executors.port import INTERNAL, ExecutionFailed, GraphExecutor, RunContext
from app.gateway.wire import MessageUsage
from app.ids import AccountId, MessageId, RunId, RunKey, new_uuid
from app.platform.clock.lease import Lease
from app.platform.db import Database
from app.requests.messages import Message
from app.requests.outcome import FinalUsage, GraphFinal
from app.requests.runs import GraphRunRequest
from app.runs.dispatch.queue import RunQueue
from app.runs.events.publisher import RunEventPublisher
from app.runs.records import NewRun
from app.runs.repository import finish_run
from app.runs.worker import RunWorker
from app.streams.memory import MemoryEventLog
from app.usage.records import Attribution, TokenUsage
from tests.factories import a_control, a_plan, an_account
from tests.integration.run_process import UNLIMITED, insert, undelivered_over
from tests.patience import PATIENCE_S

GRAPH = "claude_agents:assistant"
ENDED = GraphFinal(
    ok=False,
    run_id="run-1",
    request_id=None,
    content="",
    error="internal",
    finish_reason="error",
    usage=FinalUsage(),
)


class TakenForDead:
    """Another process ends the run; this one goes on and calls the model once more."""

    def __init__(self, database: Database, ledger: CreditLedger) -> None:
        self._database = database
        self._ledger = ledger

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        async with self._database.transaction() as tx:
            assert await finish_run(tx, context.plan.run, attempt=0, final=ENDED, report=None, events=[])
            await self._ledger.release(tx, context.plan.run)
        assert await self._ledger.resize_reservation(context.plan.run, 500) is not None
        raise ExecutionFailed(*INTERNAL)


class CallsOnce:
    """Uses one message, whose receipt nobody delivers."""

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        message = MessageUsage(
            MessageId("msg_1"), "claude-sonnet-4-6", TokenUsage(input_tokens=10), complete=True
        )
        await context.events.publish(
            UsageReport(usage_fact(message, context.plan, executor_type="claude_sdk"))
        )
        await context.events.publish(AssistantFinal(content="done"))


@asynccontextmanager
async def an_executed_run(
    database: Database, executor: GraphExecutor, directory: Path, *, reserved: int
) -> AsyncIterator[tuple[AccountId, ReceiptQueue]]:
    """A run of an account with 1000 credits, some of them reserved, and the receipts to be delivered."""
    key, ledger = await an_account(database), CreditLedger(database)
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 1000)
    run = RunKey(key.account_id, RunId("run-1"))
    async with database.transaction() as tx:
        await insert(tx, NewRun(run, key.id, GRAPH, "claude-sonnet-4-6", "{}", "", b"", None, new_uuid()))
        assert await ledger.reserve(tx, run, reserved) == reserved
    journal, log = Journal(directory, new_uuid()), MemoryEventLog()
    receipts = ReceiptQueue(journal, PriceList())
    worker = RunWorker(
        database,
        executor,
        log,
        complete=undelivered_over(database).add,
        receipts=receipts,
        ledger=ledger,
        queue=RunQueue(database, new_uuid(), UNLIMITED),
        lease=Lease(),
        max_output_bytes=2**20,
    )
    request = GraphRunRequest.of(graph_id=GRAPH, messages=[Message.of(role="user", content="go")])
    plan = a_plan(run=run, attribution=Attribution(key.id, GRAPH, None))
    publisher = RunEventPublisher(database, log, run, attempt=0, lease=Lease())
    async with asyncio.timeout(PATIENCE_S):
        await worker.execute(plan, request, a_control(), publisher=publisher)
    yield key.account_id, receipts
    journal.close()


async def test_what_a_run_has_spent_is_debited_before_its_credit_is_released(
    database: Database, tmp_path: Path
) -> None:
    """Otherwise another process could spend it until the receipt arrives."""
    ledger = CreditLedger(database)
    async with an_executed_run(database, CallsOnce(), tmp_path, reserved=1000) as (account, receipts):
        credit = await ledger.balance(account)
        assert (credit.reserved, credit.spent) == (0, 300)
        # The delivery inserts it again, which changes nothing.
        delivery = ReceiptDelivery(database, receipts)
        assert len(receipts) == 1
        await delivery.aclose()
        assert len(receipts) == 0
        assert (await ledger.balance(account)).spent == 300


async def test_a_reservation_made_after_another_process_ended_the_run_is_released(
    database: Database, tmp_path: Path
) -> None:
    ledger = CreditLedger(database)
    executor = TakenForDead(database, ledger)
    async with an_executed_run(database, executor, tmp_path, reserved=100) as (account, _):
        credit = await ledger.balance(account)

    assert (credit.reserved, credit.balance) == (0, 1000)
