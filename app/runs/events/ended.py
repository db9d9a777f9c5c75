"""The log line of a run that has ended: one for each run, whatever ends it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from app.executors.port import RunPlan
from app.requests.outcome import GraphFinal
from app.runs.records import RunRecord
from app.usage.records import ChargedUsage

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """What the line names besides the fields of the run's context: run, account, key and request."""

    graph: str
    model: str
    attempt: int
    final: GraphFinal
    queue_wait: timedelta
    duration: timedelta | None
    """How long its last attempt was executed; None for a run that no process executed any more."""
    charged: ChargedUsage | None
    """All attempts together; None if the database could not be read."""
    trace_id: str | None

    @classmethod
    def of_plan(
        cls, plan: RunPlan, final: GraphFinal, *, duration: timedelta, charged: ChargedUsage
    ) -> "EndedRun":
        """A run that this process has executed; `charged` in this attempt."""
        before = plan.spent.charged
        total = before.plus(charged.tokens, charged.cost_usd, messages=charged.messages)
        return cls(
            *(plan.spec.id, plan.model, plan.attempt, final, plan.queue_wait),
            duration=duration,
            charged=total,
            trace_id=None if plan.trace is None else plan.trace.trace_id,
        )

    @classmethod
    def of_record(
        cls, run: RunRecord, final: GraphFinal, *, charged: ChargedUsage | None, trace_id: str | None
    ) -> "EndedRun":
        return cls(
            *(run.graph_id, run.model, run.attempt, final, queue_wait_of(run)),
            duration=None,
            charged=charged,
            trace_id=trace_id,
        )


def queue_wait_of(run: RunRecord) -> timedelta:
    """How long a run has waited until it started, or until now; without the time it was not to start yet."""
    due_at = max(run.created_at, run.start_after or run.created_at)
    return max(timedelta(), (run.started_at or datetime.now(UTC)) - due_at)


def log_ended(run: EndedRun) -> None:
    """Write the line; the caller's context names the run."""
    charged, final = run.charged, run.final
    tokens = None if charged is None else charged.tokens
    log.info(
        "run.ended",
        graph=run.graph,
        model=run.model,
        status=final.status,
        error=final.error,
        finish_reason=final.finish_reason,
        attempt=run.attempt,
        queue_wait_s=round(run.queue_wait.total_seconds(), 3),
        duration_s=None if run.duration is None else round(run.duration.total_seconds(), 3),
        messages=None if charged is None else charged.messages,
        tokens_in=None if tokens is None else tokens.input_tokens,
        tokens_out=None if tokens is None else tokens.output_tokens,
        tokens_cache_read=None if tokens is None else tokens.cache_read_tokens,
        tokens_cache_written=None if tokens is None else tokens.cache_written_tokens,
        cost_usd=None if charged is None else f"{charged.cost_usd:f}",
        trace_id=run.trace_id,
    )
