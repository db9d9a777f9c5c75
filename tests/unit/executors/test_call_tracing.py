import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

from app.billing.prices.price_list import PriceList
from app.executors.call_tracing import PricedTracing
from app.executors.metering import usage_fact
from app.gateway.answer_usage import MessageUsage
from app.ids import MessageId
from app.platform.telemetry.records import SpanOptions
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.trace_context import RunTraceContext
from app.runs.events.tracing import traced_plan
from app.usage.records import TokenUsage
from tests.factories import a_plan
from tests.unit.platform.telemetry.spans_in_memory import InMemory

MODEL = "claude-sonnet-4-6"


def test_a_call_has_the_cost_that_its_receipt_will_have() -> None:
    memory, plan = InMemory(), a_plan()
    plan = replace(plan, trace=RunTraceContext.of(plan.run, None), accepted_at=datetime.now(UTC))
    options = SpanOptions(frozenset({"langfuse"}))
    trace = Telemetry(memory.spans, memory.metrics, options).open(traced_plan(plan), waited=False)
    assert trace is not None
    to_fact = partial(usage_fact, plan=plan, executor_type="claude_sdk")
    tracing = PricedTracing(trace, PriceList(), to_fact)
    usage = TokenUsage(1000, 10, 500, 300, 200)
    message = MessageUsage(MessageId("msg_1"), MODEL, usage, complete=True, stop_reason="end_turn")

    tracing.end(tracing.start(MODEL, agent=""), message)
    tracing.end(tracing.start("refused", agent=""), None)

    chat = memory.named(f"chat {MODEL}").attributes or {}
    dollars = (1000 * 3 + 10 * 15 + 500 * Decimal("0.3") + 300 * Decimal("3.75") + 200 * 6) / 10**6
    assert Decimal(str(chat["runtally.cost_usd"])) == dollars
    by_kind = json.loads(str(chat["langfuse.observation.cost_details"]), parse_float=Decimal)
    assert by_kind == {
        "input": Decimal("0.003"),
        "output": Decimal("0.00015"),
        "cache_read_input_tokens": Decimal("0.00015"),
        "cache_creation_input_tokens": Decimal("0.002325"),
        "total": dollars,
    }
    assert "runtally.cost_usd" not in (memory.named("chat refused").attributes or {})
