"""Opens the SDK of OpenTelemetry: providers of this server's own, never the global ones."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import SpanContext

from app import __version__
from app.platform.network import Network
from app.platform.telemetry.config import SERVICE_NAME, Destination, TelemetryConfig, TelemetryUnavailable
from app.platform.telemetry.metrics import GenAiMetrics
from app.platform.telemetry.sdk.clients import open_clients
from app.platform.telemetry.sdk.receiver import ReportingSession
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.spans import SpanWriter

log = structlog.get_logger(__name__)

CLOSE_TIMEOUT_S = 3.0
"""How long a stopping server waits until everything is exported, while the receiver does not refuse."""

_CLOSE_TICK_S = 0.02

_SCOPE = "runtally"


@asynccontextmanager
async def open_sdk(config: TelemetryConfig, *, instance_id: str) -> AsyncIterator[Telemetry]:
    """Export while the body runs, and what is left afterwards; raises `TelemetryUnavailable`."""
    _quieten()
    exports = _Exports(_resource(config, instance_id), config.network)
    try:
        traces, metrics = config.destinations.get("traces"), config.destinations.get("metrics")
        spans = None if traces is None else exports.open_traces(traces)
        recorded = None if metrics is None else exports.open_metrics(metrics)
    except ValueError as error:
        await exports.aclose()
        names = ", ".join(sorted(name for name in os.environ if name.startswith("OTEL_")))
        message = f"One of these variables has a value that cannot be used; correct or unset it: {names}."
        raise TelemetryUnavailable(message) from error
    try:
        yield Telemetry(spans, recorded, config.options, open_clients(config))
    finally:
        await exports.aclose()


@dataclass(slots=True)
class _Signal:
    """The exports of one signal."""

    session: ReportingSession
    shut_down: Callable[[], object]
    """Exports what is left; may take as long as the receiver does."""
    abandon: Callable[[], object]


@dataclass(slots=True)
class _Exports:
    resource: Resource
    network: Network
    signals: list[_Signal] = field(default_factory=list)

    def open_traces(self, to: Destination) -> SpanWriter:
        session, ids = ReportingSession("traces", to.endpoint, self.network), GivenIds()
        exporter = OTLPSpanExporter(to.endpoint, headers=to.headers, session=session)
        provider = TracerProvider(resource=self.resource, shutdown_on_exit=False, id_generator=ids)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        self.signals.append(_Signal(session, provider.shutdown, exporter.shutdown))
        tracer = provider.get_tracer(_SCOPE, __version__)
        return SpanWriter(tracer, ids, SamplerOf(provider.sampler))

    def open_metrics(self, to: Destination) -> GenAiMetrics:
        session = ReportingSession("metrics", to.endpoint, self.network)
        exporter = OTLPMetricExporter(to.endpoint, headers=dict(to.headers), session=session)
        reader = PeriodicExportingMetricReader(exporter)
        provider = MeterProvider([reader], self.resource, shutdown_on_exit=False)
        self.signals.append(_Signal(session, provider.shutdown, exporter.shutdown))
        return GenAiMetrics(provider.get_meter(_SCOPE, __version__))

    async def aclose(self) -> None:
        """Export what is left of all signals, at most for a few seconds."""
        await asyncio.gather(*(_close(each) for each in self.signals))


async def _close(signal: _Signal) -> None:
    """In a thread that does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def shut_down() -> None:
        signal.shut_down()
        # The loop may have been closed before.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(closed.set)

    failures, deadline = signal.session.failures, loop.time() + CLOSE_TIMEOUT_S
    threading.Thread(target=shut_down, name="telemetry.close", daemon=True).start()
    while not closed.is_set() and signal.session.failures == failures and loop.time() < deadline:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TICK_S):
                await closed.wait()
    if not closed.is_set():
        log.warning("telemetry.left_unsent", signal=signal.session.signal)
        signal.abandon()


def _quieten() -> None:
    """Let the SDK log errors of its own, and not each failed attempt to export, which is logged once."""
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    for exporter in (OTLPSpanExporter, OTLPMetricExporter):
        logging.getLogger(exporter.__module__).addFilter(_is_not_reported)


def _is_not_reported(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Failed to export")


class GivenIds(RandomIdGenerator):
    """Implements `SpanIds`. Spans are written by one thread."""

    def __init__(self) -> None:
        self._trace_id = self._span_id = 0

    def use(self, *, trace_id: int, span_id: int) -> None:
        self._trace_id, self._span_id = trace_id, span_id

    def generate_trace_id(self) -> int:
        """That of the next span."""
        return self._trace_id

    def generate_span_id(self) -> int:
        """That of the next span."""
        return self._span_id

    def is_trace_id_random(self) -> bool:
        """They are not announced as random: some follow from a run."""
        return False


@dataclass(frozen=True, slots=True)
class SamplerOf:
    """Implements `Sampling` by `OTEL_TRACES_SAMPLER`."""

    sampler: Sampler

    def includes(self, name: str, *, trace_id: int, parent: SpanContext | None) -> bool:
        context = Context()
        if parent is not None:
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent), context)
        result = self.sampler.should_sample(context, trace_id, name)
        return result.decision is Decision.RECORD_AND_SAMPLE


def _resource(config: TelemetryConfig, instance_id: str) -> Resource:
    return Resource.create(
        {
            "service.version": __version__,
            "service.instance.id": instance_id,
            "service.name": SERVICE_NAME,
            **config.resource_attributes,
            **({} if config.service_name is None else {"service.name": config.service_name}),
        }
    )
