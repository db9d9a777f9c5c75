"""SpanWriter: exports spans that have ended, with ids that were decided before."""

from dataclasses import dataclass
from typing import Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from app.platform.telemetry.attributes import Attributes

Tracer = trace.Tracer


class SpanIds(Protocol):
    """Gives the next span these ids."""

    def use(self, *, trace_id: int, span_id: int) -> None:
        """For the span that is started next."""
        ...


class Sampling(Protocol):
    """Decides whether a trace is exported."""

    def includes(self, name: str, *, trace_id: int, parent: SpanContext | None) -> bool:
        """Whether a span with this parent is exported."""
        ...


@dataclass(slots=True)
class FinishedSpan:
    """A span that has ended; times in nanoseconds since 1970."""

    name: str
    context: SpanContext
    started_ns: int
    ended_ns: int
    attributes: Attributes
    kind: SpanKind = SpanKind.INTERNAL
    is_error: bool = False

    @property
    def seconds(self) -> float:
        return max(0, self.ended_ns - self.started_ns) / 1e9


class SpanWriter:
    """Hands spans to the SDK once they have ended.

    A parent is exported after its children, perhaps by another process, so no span is open in the SDK.
    """

    def __init__(self, tracer: Tracer, ids: SpanIds, sampling: Sampling) -> None:
        self._tracer = tracer
        self._ids = ids
        self._sampling = sampling

    def is_sampled(self, name: str, *, trace_id: int, parent: SpanContext | None) -> bool:
        """Whether the trace of this span is exported."""
        return self._sampling.includes(name, trace_id=trace_id, parent=parent)

    def write(self, span: FinishedSpan, *, parent: SpanContext | None) -> None:
        """Export a span, if its trace is."""
        if not span.context.trace_flags.sampled:
            return
        context = Context()
        if parent is not None:
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent), context)
        self._ids.use(trace_id=span.context.trace_id, span_id=span.context.span_id)
        started = self._tracer.start_span(
            span.name, context, span.kind, dict(span.attributes), start_time=span.started_ns
        )
        if span.is_error:
            started.set_status(Status(StatusCode.ERROR))
        started.end(max(span.ended_ns, span.started_ns))
