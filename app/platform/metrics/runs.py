"""RunMetrics: how runs wait, begin and end."""

import time
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.events import AiEvent, MeterReport, TextDelta, UsageReport
from app.platform.metrics.families import NAMESPACE, KnownNames
from app.requests.outcome import GraphFinal

_WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_EVENT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60)
_NO_ERROR = "none"


class RunMetrics:
    """The runs that this process has started or ended."""

    def __init__(
        self, registry: CollectorRegistry | None = None, *, graphs: KnownNames | None = None
    ) -> None:
        """Without a registry nothing is exposed; `graphs` are the ids that may be a label."""
        self._graphs = graphs or KnownNames()
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        histogram = partial(Histogram, namespace=NAMESPACE, registry=registry)
        self._ended = counter(
            "runs_ended", "Runs that have ended in this process.", ["graph", "status", "error"]
        )
        self._agent_failures = counter(
            "agent_failures",
            "Failures of the agent's program, also of attempts that were repeated.",
            ["failure"],
        )
        self._hook_failures = counter(
            "hook_failures", "Calls of the operator's hooks that raised or took too long.", ["hook", "method"]
        )
        self._wait = histogram(
            "queue_wait_seconds",
            "From the acceptance of a run, or its start time, to its start.",
            buckets=_WAIT_BUCKETS,
        )
        self._first_event = histogram(
            "first_event_seconds",
            "From the start of an attempt to the first event of its executor.",
            ["executor"],
            buckets=_EVENT_BUCKETS,
        )
        self._first_text = histogram(
            "first_text_seconds",
            "From the start of an attempt to the first text for its client.",
            ["executor"],
            buckets=_EVENT_BUCKETS,
        )
        self._drift = counter(
            "drift_messages", "Messages of which the SDK and the gateway have counted different tokens."
        )
        self._drift_usd = counter(
            "drift_usd",
            "Dollars by which the CLI's costs and those of the measured messages differ, without signs.",
        )

    def run_started(self, *, waited_s: float) -> None:
        self._wait.observe(max(0.0, waited_s))

    def agent_failed(self, failure: str) -> None:
        self._agent_failures.labels(failure).inc()

    def hook_failed(self, hook: str, method: str) -> None:
        """A method of one of the operator's hooks has raised, or took too long."""
        self._hook_failures.labels(hook, method).inc()

    def run_ended(self, graph_id: str, final: GraphFinal, report: MeterReport | None = None) -> None:
        error = final.error or _NO_ERROR
        self._ended.labels(self._graphs.label(graph_id), final.status, error).inc()
        if report is not None:
            self._drift.inc(report.meters.drift)
            cost = report.meters.cost
            if cost is not None and cost.drift_usd is not None:
                self._drift_usd.inc(float(abs(cost.drift_usd)))

    def attempt(self, graph_id: str) -> "AttemptTimer":
        executor = self._graphs.label(graph_id).partition(":")[0]
        return AttemptTimer(self._first_event.labels(executor), self._first_text.labels(executor))


@dataclass(slots=True)
class AttemptTimer:
    """When the first events of an attempt were published."""

    first_event: Histogram
    first_text: Histogram
    _since: float = field(default_factory=time.monotonic)
    _has_event: bool = False
    _has_text: bool = False

    def published(self, event: AiEvent) -> None:
        if self._has_text or isinstance(event, UsageReport | MeterReport):
            return
        if not self._has_event:
            self._has_event = True
            self.first_event.observe(time.monotonic() - self._since)
        if isinstance(event, TextDelta) and event.parent_tool_call_id is None:
            self._has_text = True
            self.first_text.observe(time.monotonic() - self._since)
