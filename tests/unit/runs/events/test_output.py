from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from app import events
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.executors.port import ABORTED, RunPlan
from app.ids import MessageId, new_uuid
from app.platform.clock.lease import Lease
from app.requests.messages import Message, SentMessage
from app.runs.events.output import RunOutput
from app.runs.events.publisher import RunEventPublisher
from app.runs.events.terminal import terminal_events
from app.streams.memory import MemoryEventLog
from app.usage.records import CostComparison, Meters, Spent, TokenUsage, UsageFact, UsageTotal
from tests.factories import a_control, a_plan, an_unused_database
from tests.patience import PATIENCE_S


class Run:
    """One run's output, and where it goes."""

    def __init__(self, journal: Journal, *, max_bytes: int = 2**20, plan: RunPlan | None = None) -> None:
        self.plan = plan or a_plan()
        self.log = MemoryEventLog()
        self.control = a_control()
        self.receipts = ReceiptQueue(journal, PriceList())
        self.output = RunOutput(
            self.plan,
            self.control,
            publisher=RunEventPublisher(
                an_unused_database(), self.log, self.plan.run, attempt=0, lease=Lease()
            ),
            receipts=self.receipts,
            max_bytes=max_bytes,
        )

    async def publish(self, *given: events.AiEvent) -> list[int | None]:
        return [await self.output.publish(event) for event in given]

    async def published(self) -> list[object]:
        return [entry.event for entry in await self.log.read(self.plan.run)]

    def fact(self, message: str = "msg_1") -> UsageFact:
        return UsageFact(
            run=self.plan.run,
            attempt=0,
            message_id=MessageId(message),
            attribution=self.plan.attribution,
            model="claude-haiku-5-5",
            usage=TokenUsage(input_tokens=10, output_tokens=5),
            executor_type="claude_sdk",
        )


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path, new_uuid())
    yield journal
    journal.close()


async def test_output_is_published_and_usage_is_billed(journal: Journal) -> None:
    run = Run(journal)
    word, answer = events.TextDelta(message_id="m", delta="hello"), events.AssistantFinal(content="hello")

    positions = await run.publish(
        word, events.UsageReport(run.fact()), answer, events.MeterReport(Meters(1, 1, 0), tool_failures=2)
    )

    assert positions == [1, None, None, None]
    # The answer is published with the end of the run.
    assert await run.published() == [word]
    assert len(run.receipts) == 1
    final = run.output.final()
    assert (final.ok, final.content, final.error, final.finish_reason) == (True, "hello", None, "stop")
    assert (final.usage.prompt_tokens, final.usage.completion_tokens) == (10, 5)
    assert run.output.report is not None
    assert run.output.report.tool_failures == 2


async def test_what_was_measured_before_it_was_parked_is_added(journal: Journal) -> None:
    first = CostComparison(Decimal(3), sdk_usd=Decimal(2), drift_usd=Decimal(1), notes=("a",))
    second = CostComparison(Decimal(4), explained_usd=Decimal(1), notes=("b", "a"))
    plan = replace(a_plan(), reported=events.MeterReport(Meters(1, 2, 1, first), tool_failures=1))
    run = Run(journal, plan=plan)
    before = run.output.report
    await run.publish(
        events.MeterReport(Meters(0, 0, 0), tool_failures=4),
        events.MeterReport(Meters(3, 3, 0, second), tool_failures=2),
    )

    assert before is plan.reported
    assert run.output.report is not None
    both = CostComparison(Decimal(7), explained_usd=Decimal(1), notes=("a", "b"))
    assert (run.output.report.meters, run.output.report.tool_failures) == (Meters(4, 5, 1, both), 7)


async def test_usage_of_earlier_attempts_counts(journal: Journal) -> None:
    run = Run(journal, plan=replace(a_plan(), spent=Spent(UsageTotal(100, 50, 30, 20))))
    await run.publish(events.UsageReport(run.fact()))
    final = run.output.final()
    assert (final.usage.prompt_tokens, final.usage.completion_tokens) == (110, 55)
    assert final.cached == (30, 20)
    assert "cached" not in final.model_dump()


async def test_without_an_answer_the_content_is_the_main_agents_last_message(journal: Journal) -> None:
    run = Run(journal)
    await run.publish(
        events.TextDelta(message_id="m1", delta="first"),
        events.TextDelta(message_id="m2", delta="last "),
        events.TextDelta(message_id="s1", delta="a subagent's", parent_tool_call_id="call"),
        events.ThinkingDelta(message_id="m2", delta="hm"),
        events.TextDelta(message_id="m2", delta="words"),
    )
    run.output.outcome = ABORTED

    final = run.output.final()

    assert (final.ok, final.content) == (False, "last words")
    assert (final.error, final.finish_reason) == ABORTED


async def test_more_output_than_allowed_stops_the_run_and_is_not_published(journal: Journal) -> None:
    run = Run(journal, max_bytes=3 * 1024)
    words = [events.TextDelta(message_id="m", delta="word ") for _ in range(5)]

    positions = await run.publish(
        *words, events.AssistantFinal(content="done"), events.UsageReport(run.fact())
    )

    assert positions == [1, 2, 3, None, None, None, None]
    assert run.control.stop.is_set()
    assert len(run.receipts) == 1
    final = run.output.final()
    assert (final.ok, final.error, final.finish_reason) == (False, "rate_limit", "budget")


async def test_the_context_is_that_of_the_agents_last_complete_message(journal: Journal) -> None:
    run = Run(journal)
    assert run.output.final().context_used is None

    last = replace(run.fact("msg_2"), usage=TokenUsage(20, 7, cache_read_tokens=100, cache_write_5m_tokens=3))
    others = [
        replace(last, origin="subagent"),
        replace(last, origin="hidden"),
        replace(last, basis="partial"),
    ]
    for fact in (run.fact(), last, *(replace(each, usage=TokenUsage(1, 1)) for each in others)):
        await run.publish(events.UsageReport(fact))
    final = run.output.final()
    done = terminal_events(final)[-1]

    assert (final.context_used, final.context_window) == (130, 1_000_000)
    assert isinstance(done, events.Done)
    assert (done.context_used, done.context_window) == (130, 1_000_000)

    # A fallback has a window of its own; that of a model which is not listed is not known.
    for model, window in (("claude-haiku-4-5-20251001", 200_000), ("claude-opus-4-1", None)):
        await run.publish(events.UsageReport(replace(last, model=model)))
        assert run.output.final().context_window == window
    done = terminal_events(run.output.final())[-1]
    assert "contextWindow" not in done.model_dump(by_alias=True)


async def test_a_discarded_message_is_not_in_the_result(journal: Journal) -> None:
    run = Run(journal)
    old, new = (events.TextDelta(message_id=name, delta=name) for name in ("old", "new"))

    await run.publish(
        old, events.MessageDiscarded(message_id="old"), new, events.MessageDiscarded(message_id="other")
    )
    assert run.output.final().content == "new"

    await run.publish(events.MessageDiscarded(message_id="new"))
    assert run.output.final().content == ""


async def test_the_sender_of_a_message_gets_the_position_at_which_it_took_effect(journal: Journal) -> None:
    run = Run(journal)
    run.control.send(SentMessage("m1", Message.of(role="user", content="and this"), "next"))

    await run.publish(
        events.TextDelta(message_id="m", delta="hello"),
        events.UserMessageDelivered(message_id="m1", content="and this"),
    )

    assert await run.control.inbox.wait_for_position("m1", within_s=PATIENCE_S) == 2
