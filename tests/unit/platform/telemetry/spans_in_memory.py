"""Spans kept in memory by the real SDK."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.platform.telemetry.metrics import GenAiMetrics
from app.platform.telemetry.sdk.opening import GivenIds, SamplerOf
from app.platform.telemetry.spans import SpanWriter


class InMemory:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter, ids = InMemorySpanExporter(), GivenIds()
        provider = TracerProvider(id_generator=ids, resource=Resource({}), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = SpanWriter(provider.get_tracer("t"), ids, SamplerOf(provider.sampler))
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader], Resource({}), shutdown_on_exit=False)
        self.metrics = GenAiMetrics(meters.get_meter("t"))

    @property
    def finished(self) -> tuple[ReadableSpan, ...]:
        """In the order of their export."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """The only span with this name."""
        (found,) = [span for span in self.finished if span.name == name]
        return found

    def parents(self) -> dict[str, str | None]:
        """The name of each span's parent; None for one that was not exported."""
        names = {span.context.span_id: span.name for span in self.finished}
        return {
            span.name: None if span.parent is None else names.get(span.parent.span_id)
            for span in self.finished
        }

    def points(self, metric: str) -> list[HistogramDataPoint]:
        """The data points of a metric."""
        data = self._reader.get_metrics_data()
        found = [
            each
            for of_resource in ([] if data is None else data.resource_metrics)
            for of_scope in of_resource.scope_metrics
            for each in of_scope.metrics
            if each.name == metric
        ]
        return [
            point
            for each in found
            for point in each.data.data_points
            if isinstance(point, HistogramDataPoint)
        ]
