from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from structlog.testing import capture_logs

from app.ids import ApiKeyId, new_uuid
from app.platform.telemetry.trace_context import RunTraceContext
from app.requests.outcome import FinalUsage, GraphFinal
from app.runs.events.ended import EndedRun, log_ended, queue_wait_of
from app.runs.records import RunRecord
from app.usage.records import ChargedUsage, Spent, TokenUsage
from tests.factories import a_plan

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def a_final(**fields: Any) -> GraphFinal:
    values = {"ok": True, "run_id": "r1", "request_id": None, "content": "", "usage": FinalUsage(), **fields}
    return GraphFinal(**{"finish_reason": "stop", **values})


def a_record(**fields: Any) -> RunRecord:
    nothing: dict[str, Any] = dict.fromkeys(RunRecord.__dataclass_fields__)
    known = {
        "key": a_plan().run,
        "api_key_id": ApiKeyId(new_uuid()),
        "graph_id": "g",
        "model": "m",
        "attempt": 1,
    }
    return RunRecord(**{**nothing, **known, "created_at": NOW, **fields})


def test_the_line_adds_what_earlier_attempts_were_charged() -> None:
    before = Spent(charged=ChargedUsage(2, TokenUsage(100, 10, 5, 3, 4), Decimal("0.10")))
    trace = RunTraceContext("ab" * 16, "cd" * 8, None)
    plan = replace(a_plan(), attempt=1, spent=before, queue_wait=timedelta(seconds=1.5), trace=trace)
    now = ChargedUsage(1, TokenUsage(1, 2, 3, 4, 5), Decimal("0.0000001"))

    with capture_logs() as logs:
        log_ended(EndedRun.of_plan(plan, a_final(), duration=timedelta(seconds=2), charged=now))

    assert logs == [
        {
            "event": "run.ended",
            "log_level": "info",
            "graph": plan.spec.id,
            "model": plan.model,
            "status": "succeeded",
            "error": None,
            "finish_reason": "stop",
            "attempt": 1,
            "queue_wait_s": 1.5,
            "duration_s": 2.0,
            "messages": 3,
            "tokens_in": 101,
            "tokens_out": 12,
            "tokens_cache_read": 8,
            "tokens_cache_written": 16,
            "cost_usd": "0.1000001",
            "trace_id": "ab" * 16,
        }
    ]


def test_a_run_that_nothing_executed_has_no_duration() -> None:
    final = a_final(ok=False, error="aborted", finish_reason="aborted")

    with capture_logs() as logs:
        log_ended(EndedRun.of_record(a_record(), final, charged=None, trace_id="t"))

    shown = [logs[0][name] for name in ("status", "duration_s", "cost_usd", "trace_id")]
    assert shown == ["cancelled", None, None, "t"]


def test_the_wait_is_that_after_the_run_was_due() -> None:
    started = {"started_at": NOW + timedelta(seconds=90)}

    assert queue_wait_of(a_record(**started)) == timedelta(seconds=90)
    assert queue_wait_of(a_record(**started, start_after=NOW + timedelta(seconds=60))) == timedelta(
        seconds=30
    )
    assert queue_wait_of(a_record(started_at=NOW - timedelta(seconds=5))) == timedelta()
