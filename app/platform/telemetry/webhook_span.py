"""The span of one call of a webhook: a trace of its own."""

import secrets
import time
from dataclasses import dataclass

from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from app.platform.telemetry.attributes import clean, present
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.spans import FinishedSpan


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """One attempt to deliver an event."""

    event: str
    webhook_id: str
    delivery_id: str
    account_id: str
    run_id: str | None
    """The run that the event is about."""
    attempt: int
    started_ns: int
    status: int | None
    problem: str | None
    """None if the receiver has accepted it."""


def write_delivery(telemetry: Telemetry, call: WebhookCall) -> None:
    """Export the span of a call that has ended. Neither the address nor the contents are in it."""
    if (spans := telemetry.spans) is None:
        return
    name, trace_id = f"deliver_webhook {clean(call.event)}", secrets.randbits(128)
    sampled = spans.is_sampled(name, trace_id=trace_id, parent=None)
    context = SpanContext(trace_id, secrets.randbits(64), is_remote=False, trace_flags=TraceFlags(sampled))
    attributes = present(
        {
            "runtally.webhook.id": call.webhook_id,
            "runtally.webhook.delivery_id": call.delivery_id,
            "runtally.webhook.attempt": call.attempt,
            "runtally.account": call.account_id,
            "runtally.run_id": call.run_id,
            "http.request.method": "POST",
            "http.response.status_code": call.status,
            "error.type": call.problem,
        }
    )
    span = FinishedSpan(
        name,
        context,
        call.started_ns,
        time.time_ns(),
        attributes,
        kind=SpanKind.CLIENT,
        is_error=call.problem is not None,
    )
    spans.write(span, parent=None)
