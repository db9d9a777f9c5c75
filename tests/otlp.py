"""A receiver of OTLP/HTTP on loopback, which reads the protobuf."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    is_error: bool
    started_ns: int
    ended_ns: int
    trace_state: str
    attributes: dict[str, Any]


@dataclass(slots=True)
class OtlpReceiver:
    """Keeps what it gets; answers with `status`, once it is let go."""

    url: str = ""
    status: int = 200
    location: str = ""
    """Where answers with a status like 307 lead."""
    spans: list[Span] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sums: dict[str, Counter[tuple[tuple[str, Any], ...]]] = field(default_factory=dict)
    """Of each histogram, by its attributes: the latest."""
    counts: dict[str, Counter[tuple[tuple[str, Any], ...]]] = field(default_factory=dict)
    points: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Of each counter, by its name."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The attributes of log records."""
    requests: int = 0
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        body = await read_body(receive)
        self.requests += 1
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self.let_go.wait()
        if self.status == 200:
            self._keep(scope["path"], body)
        headers = [(b"location", self.location.encode())] if self.location else []
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def tree(self, names: Iterable[str] = ()) -> list[str]:
        """The spans, indented below their parents, with these attributes; in the order of their starts."""
        known = {span.span_id for span in self.spans}
        roots = [span for span in self.spans if span.parent_id not in known]
        return [line for root in _sorted(roots) for line in self._lines(root, tuple(names), "")]

    def _lines(self, span: Span, names: tuple[str, ...], indent: str) -> Iterable[str]:
        shown = "".join(f" {span.attributes[name]}" for name in names if name in span.attributes)
        yield f"{indent}{span.kind} {span.name}{shown}"
        for child in _sorted([each for each in self.spans if each.parent_id == span.span_id]):
            yield from self._lines(child, names, f"{indent}  ")

    def _keep(self, path: str, body: bytes) -> None:
        keep = {
            "/v1/traces": self._keep_traces,
            "/v1/logs": self._keep_logs,
            "/v1/metrics": self._keep_metrics,
        }
        keep[path](body)

    def _keep_traces(self, body: bytes) -> None:
        for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_attributes(traced.resource.attributes))
            for scope in traced.scope_spans:
                self.spans.extend(map(_span, scope.spans))

    def _keep_logs(self, body: bytes) -> None:
        for logged in ExportLogsServiceRequest.FromString(body).resource_logs:
            self.resources.append(_attributes(logged.resource.attributes))
            for scope in logged.scope_logs:
                self.events.extend(_attributes(record.attributes) for record in scope.log_records)

    def _keep_metrics(self, body: bytes) -> None:
        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.resources.append(_attributes(of_resource.resource.attributes))
            for metric in (each for scope in of_resource.scope_metrics for each in scope.metrics):
                self.points.extend((metric.name, _attributes(p.attributes)) for p in metric.sum.data_points)
                points = metric.histogram.data_points
                keys = [tuple(sorted(_attributes(point.attributes).items())) for point in points]
                pairs = list(zip(keys, points, strict=True))
                self.sums[metric.name] = Counter({key: point.sum for key, point in pairs})
                self.counts[metric.name] = Counter({key: point.count for key, point in pairs})


@asynccontextmanager
async def an_otlp_receiver(*, status: int = 200, holds: bool = False) -> AsyncIterator[OtlpReceiver]:
    """Receive while the body runs; `holds`: no request is answered before it is let go."""
    receiver = OtlpReceiver(status=status)
    if not holds:
        receiver.let_go.set()
    async with serve_on_loopback(receiver) as url:
        receiver.url = url
        try:
            yield receiver
        finally:
            receiver.let_go.set()


def _sorted(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.started_ns, span.name))


def _span(span: WireSpan) -> Span:
    return Span(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.status.code == span.status.STATUS_CODE_ERROR,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.trace_state,
        _attributes(span.attributes),
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)
