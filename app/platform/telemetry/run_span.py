"""The span of a whole run, exported by the process that stores its end."""

import time

from app.platform.telemetry.attributes import PROVIDER, Attributes, clean, present
from app.platform.telemetry.backends import run_attributes, session_attributes
from app.platform.telemetry.content import message
from app.platform.telemetry.metrics import GenAiMetrics
from app.platform.telemetry.records import RunResult, SpanOptions, TracedRun
from app.platform.telemetry.spans import FinishedSpan, SpanWriter


def common_attributes(run: TracedRun, options: SpanOptions) -> Attributes:
    attributes: Attributes = {
        "runtally.run_id": run.run.run_id,
        "runtally.attempt": run.attempt,
        "runtally.account": str(run.run.account_id),
        **session_attributes(options.backends, run),
    }
    if run.conversation is not None:
        attributes["gen_ai.conversation.id"] = run.conversation
    if run.end_user is not None:
        attributes["user.id"] = run.end_user
    return attributes | {f"runtally.tag.{name}": value for name, value in (run.tags or {}).items()}


def run_span(
    run: TracedRun,
    result: RunResult,
    *,
    spans: SpanWriter | None,
    metrics: GenAiMetrics | None,
    options: SpanOptions,
    calls: int = 0,
    tool_calls: int = 0,
) -> None:
    """Export the span of a run that has ended, and record its metrics."""
    started_ns, name = int(run.accepted_at.timestamp() * 1e9), f"invoke_agent {clean(run.graph_id)}"
    ended_ns = max(time.time_ns(), started_ns)
    if metrics is not None:
        metrics.record_run(
            (ended_ns - started_ns) / 1e9,
            graph_id=clean(run.graph_id),
            error_type=result.error,
            calls=calls,
            tool_calls=tool_calls,
        )
    if spans is None:
        return
    context, parent = run.context, run.context.parent
    sampled = spans.is_sampled(name, trace_id=int(context.trace_id, 16), parent=parent)
    attributes = _attributes(run, result, options) if sampled else {}
    span = FinishedSpan(
        name,
        context.run_span(is_sampled=sampled),
        started_ns,
        ended_ns,
        attributes,
        is_error=result.status == "failed",
    )
    spans.write(span, parent=parent)


def _attributes(run: TracedRun, result: RunResult, options: SpanOptions) -> Attributes:
    attributes: Attributes = {
        **common_attributes(run, options),
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.agent.id": clean(run.graph_id),
        "gen_ai.agent.name": clean(run.graph_id),
        "gen_ai.request.model": clean(run.model),
        "gen_ai.usage.input_tokens": result.input_tokens,
        "gen_ai.usage.output_tokens": result.output_tokens,
        "gen_ai.response.finish_reasons": (result.finish_reason,),
        "runtally.status": result.status,
        **present({"error.type": result.error}),
    }
    if options.captures_content:
        attributes["gen_ai.output.messages"] = message("assistant", result.content)
    return attributes | run_attributes(options.backends, run, attributes)
