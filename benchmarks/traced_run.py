"""The work of telemetry for one run, without the run: its spans, their encoding, and the metrics."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from app.billing.prices.price_list import PriceList
from app.events import ToolCallResult, ToolCallStart
from app.executors.call_tracing import PricedTracing
from app.gateway.answer_usage import MessageUsage
from app.ids import AccountId, ApiKeyId, MessageId, RunId, RunKey, new_uuid
from app.platform.telemetry.metrics import GenAiMetrics
from app.platform.telemetry.records import RunResult, TracedRun
from app.platform.telemetry.sdk.opening import GivenIds, SamplerOf
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.spans import SpanWriter
from app.platform.telemetry.trace_context import RunTraceContext
from app.usage.records import Attribution, TokenUsage, UsageFact

MODEL = "claude-sonnet-5-5"
_RUNS, _ROUNDS, _BATCH = 200, 10, 512
_RESULT = RunResult("succeeded", "stop", None, 20, 40, "Ten to twelve.")


class _Kept(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it."""
        self.spans.append(span)


def cpu_ms_of_a_run() -> float:
    """Milliseconds of CPU for a run with two messages and a tool call; the best of some rounds."""
    kept, ids, prices = _Kept(), GivenIds(), PriceList()
    provider = TracerProvider(id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(kept)
    spans = SpanWriter(provider.get_tracer("benchmark"), ids, SamplerOf(provider.sampler))
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    telemetry = Telemetry(spans, GenAiMetrics(meters.get_meter("benchmark")))
    return min(_round(telemetry, kept, prices) for _ in range(_ROUNDS))


def _round(telemetry: Telemetry, kept: _Kept, prices: PriceList) -> float:
    began = time.process_time()
    for _ in range(_RUNS):
        _trace_run(telemetry, prices)
    _encode(kept.spans)
    kept.spans.clear()
    return (time.process_time() - began) * 1000 / _RUNS


def _trace_run(telemetry: Telemetry, prices: PriceList) -> None:
    run = RunKey(AccountId(new_uuid()), RunId(str(new_uuid())))
    context = RunTraceContext.of(run, None)
    traced = TracedRun(run, 0, context, "claude_agents:assistant", MODEL, None, datetime.now(UTC))
    trace = telemetry.open(traced, waited=False)
    if trace is None:
        raise RuntimeError
    tracing = PricedTracing(trace, prices, partial(_fact, run))
    for number in range(2):
        call = tracing.start(MODEL, agent="")
        call.send_to("127.0.0.1", 443, b"")
        call.receive(b"")
        used = TokenUsage(input_tokens=10, output_tokens=20)
        message = MessageUsage(MessageId(f"msg_{number}"), MODEL, used, complete=True, stop_reason="end_turn")
        tracing.end(call, message)
    trace.observe(ToolCallStart(tool_call_id="call", tool_name="core__get_current_time", args={}))
    trace.observe(ToolCallResult(tool_call_id="call", result={}, is_error=False))
    trace.end(_RESULT)


def _fact(run: RunKey, message: MessageUsage) -> UsageFact:
    return UsageFact(
        run=run,
        attempt=0,
        message_id=message.message_id,
        attribution=Attribution(ApiKeyId(new_uuid()), "claude_agents:assistant", None),
        model=message.model,
        usage=message.usage,
        executor_type="messages_api",
        stop_reason=message.stop_reason,
        at=message.at,
    )


def _encode(spans: Sequence[ReadableSpan]) -> None:
    for start in range(0, len(spans), _BATCH):
        encode_spans(spans[start : start + _BATCH]).SerializeToString()
