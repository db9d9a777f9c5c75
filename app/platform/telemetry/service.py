"""Telemetry: what a process exports of its runs; nothing unless it is switched on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.ids import RunKey
from app.platform.telemetry.clients.relay import ClientRelay, Signal
from app.platform.telemetry.metrics import GenAiMetrics
from app.platform.telemetry.records import RunResult, SpanOptions, TracedRun
from app.platform.telemetry.run_span import run_span
from app.platform.telemetry.run_trace import RunTrace
from app.platform.telemetry.spans import SpanWriter
from app.platform.telemetry.trace_context import CallerTrace, RunTraceContext


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Without spans and metrics it does nothing."""

    spans: SpanWriter | None = None
    metrics: GenAiMetrics | None = None
    options: SpanOptions = field(default_factory=SpanOptions)
    clients: Mapping[Signal, ClientRelay] = field(default_factory=dict)
    """Where telemetry of clients' own agents goes."""

    @property
    def is_on(self) -> bool:
        return self.spans is not None or self.metrics is not None

    def context_of(self, run: RunKey, caller: CallerTrace | None) -> RunTraceContext | None:
        """The trace of a run; None if it has neither a caller with one nor one of its own."""
        return RunTraceContext.of(run, caller) if self.is_on or caller is not None else None

    def open(self, run: TracedRun | None, *, waited: bool) -> RunTrace | None:
        """The trace of an attempt that starts now; None if nothing is exported."""
        if run is None or not self.is_on:
            return None
        return RunTrace(run, spans=self.spans, metrics=self.metrics, options=self.options, waited=waited)

    def end_unexecuted(self, run: TracedRun, result: RunResult) -> None:
        """This process has stored the end of a run that no process executes."""
        run_span(run, result, spans=self.spans, metrics=self.metrics, options=self.options)
