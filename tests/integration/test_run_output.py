"""The limit on a run's output."""

from pathlib import Path

from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.events import AssistantFinal, MeterReport, TextDelta, UsageReport
from app.executors.port import ABORTED, ExecutionFailed, RunContext
from app.ids import RunId, RunKey, new_uuid
from app.platform.clock.lease import Lease
from app.platform.db import Database
from app.requests.messages import Message
from app.requests.outcome import GraphFinal
from app.requests.runs import GraphRunRequest
from app.runs.dispatch.queue import RunQueue
from app.runs.events.publisher import RunEventPublisher
from app.runs.records import NewRun
from app.runs.repository import find_run, stored_events
from app.runs.worker import RunWorker
from app.streams.memory import MemoryEventLog
from app.usage.records import Attribution, Meters
from tests.factories import a_control, a_fact, a_plan, an_account
from tests.integration.run_process import UNLIMITED, insert, undelivered_over

MOST = 64 * 1024


class Talkative:
    """Talks until it is stopped or has said so much; its message is billed in the end."""

    def __init__(self, report: UsageReport, *, deltas: int) -> None:
        self._report = report
        self._deltas = deltas

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        for _ in range(self._deltas):
            await context.events.publish(TextDelta(message_id="m", delta="word "))
            if context.control.stop.is_set():
                await context.events.publish(self._report)
                await context.events.publish(MeterReport(Meters(sdk=1, gateway=1, drift=0), tool_failures=0))
                raise ExecutionFailed(*ABORTED)
        await context.events.publish(self._report)
        await context.events.publish(AssistantFinal(content="done"))


async def ended(database: Database, directory: Path, *, deltas: int) -> tuple[GraphFinal, int, int]:
    """How a run ended, what it is charged and how much is kept of its events."""
    key = await an_account(database)
    run = RunKey(key.account_id, RunId("run-1"))
    graph = "claude_agents:assistant"
    new = NewRun(run, key.id, graph, "claude-sonnet-4-6", "{}", "", b"", None, new_uuid())
    async with database.transaction() as tx:
        await insert(tx, new)
    plan = a_plan(run=run, attribution=Attribution(key.id, graph, None))
    journal, log = Journal(directory, new_uuid()), MemoryEventLog()
    receipts = ReceiptQueue(journal, PriceList())
    worker = RunWorker(
        database,
        Talkative(UsageReport(a_fact(key)), deltas=deltas),
        log,
        complete=undelivered_over(database).add,
        receipts=receipts,
        ledger=CreditLedger(database),
        queue=RunQueue(database, new_uuid(), UNLIMITED),
        lease=Lease(),
        max_output_bytes=MOST,
    )
    request = GraphRunRequest.of(graph_id=graph, messages=[Message.of(role="user", content="talk")])
    publisher = RunEventPublisher(database, log, run, attempt=0, lease=Lease())
    final = await worker.execute(plan, request, a_control(), publisher=publisher)
    assert final is not None
    pending = receipts.pending_credits(run).total
    journal.close()
    async with database.snapshot() as reader:
        assert (await find_run(reader, run)) is not None
        rows = await stored_events(reader, run, max_bytes=2**30)
    return final, pending, rows[-1].last_position


async def test_a_run_with_too_much_output_is_stopped_and_billed(database: Database, tmp_path: Path) -> None:
    final, pending, last = await ended(database, tmp_path, deltas=100_000)

    assert (final.ok, final.error, final.finish_reason) == (False, "rate_limit", "budget")
    assert final.usage.completion_tokens == 100
    assert pending > 0
    # 64 KiB at 1 KiB and five characters each, run_started, error and done.
    assert last < 70


async def test_a_run_within_its_output_limit_succeeds(database: Database, tmp_path: Path) -> None:
    final, _, last = await ended(database, tmp_path, deltas=50)

    assert (final.ok, final.content) == (True, "done")
    assert last == 53
