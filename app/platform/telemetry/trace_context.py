"""The trace that a run belongs to, from the headers of the request that started it; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.ids import RunKey

MAX_TRACEPARENT_CHARS = 512
MAX_TRACESTATE_CHARS = 512
"""Longer headers are ignored here: the library would log each of them."""

_SPAN_BYTES = 8
_TRACE_BYTES = 16
_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class CallerTrace:
    """The span of a caller, in the headers of W3C Trace Context; both are valid and normalized."""

    traceparent: str
    tracestate: str | None = None

    @classmethod
    def read(cls, traceparent: Sequence[str], tracestate: Sequence[str] = ()) -> Self | None:
        """The span that these headers name; None if they name none, are invalid, or were sent twice."""
        if len(traceparent) != 1 or len(traceparent[0]) > MAX_TRACEPARENT_CHARS:
            return None
        state = ",".join(tracestate)
        carrier = {"traceparent": traceparent[0]}
        if len(state) <= MAX_TRACESTATE_CHARS:
            carrier["tracestate"] = state
        found = _extract(carrier)
        if not found.is_valid:
            return None
        _PROPAGATOR.inject(carrier := {}, _context_of(found))
        return cls(carrier["traceparent"], carrier.get("tracestate"))

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return self.traceparent.split("-")[1]

    @property
    def span_context(self) -> trace.SpanContext:
        """The same for the SDK."""
        carrier = {"traceparent": self.traceparent}
        return _extract(carrier if self.tracestate is None else {**carrier, "tracestate": self.tracestate})


@dataclass(frozen=True, slots=True)
class RunTraceContext:
    """The trace of a run. Its ids follow from the run, so that every process that executes it knows them."""

    trace_id: str
    """32 hexadecimal digits: of the caller's trace, or else of a new one."""
    span_id: str
    """16 hexadecimal digits: of the run's span."""
    caller: CallerTrace | None = None
    """The parent of the run's span."""

    @classmethod
    def of(cls, run: RunKey, caller: CallerTrace | None) -> Self:
        digest = sha256(f"{run.account_id}/{run.run_id}".encode()).digest()
        own, span = digest[:_TRACE_BYTES], digest[_TRACE_BYTES : _TRACE_BYTES + _SPAN_BYTES]
        return cls(own.hex() if caller is None else caller.trace_id, span.hex(), caller)

    @property
    def parent(self) -> trace.SpanContext | None:
        """The caller's span."""
        return None if self.caller is None else self.caller.span_context

    def run_span(self, *, is_sampled: bool) -> trace.SpanContext:
        """The run's span, as the parent of others."""
        parent = self.parent
        return trace.SpanContext(
            int(self.trace_id, 16),
            int(self.span_id, 16),
            is_remote=False,
            trace_flags=trace.TraceFlags(is_sampled),
            trace_state=None if parent is None else parent.trace_state,
        )


def headers_of(span: trace.SpanContext) -> list[tuple[bytes, bytes]]:
    """The headers that make this span the parent of what a server does."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, _context_of(span))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in carrier.items()]


def _extract(carrier: dict[str, str]) -> trace.SpanContext:
    return trace.get_current_span(_PROPAGATOR.extract(carrier)).get_span_context()


def _context_of(span: trace.SpanContext) -> Context:
    return trace.set_span_in_context(trace.NonRecordingSpan(span), Context())
