"""Runs as their traces name them."""

from app.executors.port import RunPlan
from app.platform.telemetry.records import RunResult, TracedRun
from app.platform.telemetry.trace_context import RunTraceContext
from app.requests.outcome import GraphFinal
from app.runs.records import RunRecord


def traced_plan(plan: RunPlan) -> TracedRun | None:
    """The attempt that this plan is for; None for one without a trace."""
    if plan.trace is None or plan.accepted_at is None:
        return None
    return TracedRun(
        run=plan.run,
        attempt=plan.attempt,
        context=plan.trace,
        graph_id=plan.spec.id,
        model=plan.model,
        conversation=None if plan.conversation is None else plan.conversation.state_key,
        accepted_at=plan.accepted_at,
        end_user=plan.attribution.end_user,
        tags=plan.attribution.tags,
    )


def traced_record(run: RunRecord, context: RunTraceContext) -> TracedRun:
    """A run that no process executes."""
    return TracedRun(
        run=run.key,
        attempt=run.attempt,
        context=context,
        graph_id=run.graph_id,
        model=run.model,
        conversation=run.state_key,
        accepted_at=run.created_at,
        end_user=run.labels.end_user,
        tags=run.labels.tags,
    )


def run_result(final: GraphFinal) -> RunResult:
    return RunResult(
        status=final.status,
        finish_reason=final.finish_reason,
        error=final.error,
        input_tokens=final.usage.prompt_tokens,
        output_tokens=final.usage.completion_tokens,
        content=final.content,
    )
