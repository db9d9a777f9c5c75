"""What an operator monitors as Prometheus metrics; the only module that imports its client."""

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.billing.reconciliation.statements.records import OrganizationStatement, ReconciliationStatement
from app.fleet.records import FleetSnapshot, WorkerState

_BY_MODEL = {
    "recorded_usd": "What receipts charge, before the markup.",
    "reported_usd": "The provider's counts of our keys, at our prices.",
    "residual_usd": "Reported minus recorded.",
    "explained_usd": "The explained part of the residual.",
    "unexplained_usd": "The unexplained part of the residual.",
    "foreign_usd": "The provider's counts of other keys, at our prices.",
}


class _Metrics(Collector):
    def __init__(
        self,
        reconciliation: ReconciliationStatement | None,
        fleet: FleetSnapshot | None,
        available: Mapping[str, bool],
    ) -> None:
        self._reconciliation = reconciliation
        self._fleet = fleet
        self._available = available

    def collect(self) -> Iterator[Metric]:
        parts = GaugeMetricFamily(
            "runtally_metrics_available", "Whether a part of these metrics could be read.", labels=["part"]
        )
        for part, is_available in self._available.items():
            parts.add_metric([part], float(is_available))
        yield parts
        if self._fleet is not None:
            yield from _of_fleet(self._fleet)
        if self._reconciliation is not None:
            yield from _of_reconciliation(self._reconciliation)


def exposition(
    *,
    reconciliation: ReconciliationStatement | None,
    fleet: FleetSnapshot | None,
    available: Mapping[str, bool],
) -> bytes:
    """In Prometheus's text format; `available` names the parts, also those that are None."""
    registry = CollectorRegistry()
    registry.register(_Metrics(reconciliation, fleet, available))
    return generate_latest(registry)


def _of_fleet(found: FleetSnapshot) -> Iterator[Metric]:
    totals = found.totals
    yield _gauge("runs_ready", "Queued runs that any worker may start.", totals.ready)
    yield _gauge(
        "oldest_ready_seconds", "Since the oldest ready run is ready; 0: none is.", totals.oldest_ready_s or 0
    )
    yield _gauge("places", "Places of the workers that are alive and not draining.", found.places)
    yield _gauge("places_free", "How many of them are free.", found.places_free)
    yield _gauge("runs_running", "Runs that execute.", totals.running)
    held = GaugeMetricFamily(
        "runtally_runs_held", "Queued runs that no worker may start yet.", labels=["reason"]
    )
    for reason in ("turn", "limit", "start_time"):
        held.add_metric([reason], getattr(totals.held, reason))
    yield held
    workers = GaugeMetricFamily("runtally_workers", "Processes.", labels=["version", "state"])
    states = Counter((worker.version, worker.state) for worker in found.workers)
    for version in sorted({worker.version for worker in found.workers}):
        # Also those that are 0: a metric that disappears raises no alarm.
        for state in get_args(WorkerState):
            workers.add_metric([version, state], states[version, state])
    yield workers


def _of_reconciliation(found: ReconciliationStatement) -> Iterator[Metric]:
    until = found.compared_until
    if until is not None:
        yield _gauge(
            "reconciliation_compared_until_timestamp_seconds",
            "Until when all was compared.",
            until.timestamp(),
        )
    if found.organization is not None:
        yield from _of_organization(found.organization)


def _of_organization(found: OrganizationStatement) -> Iterator[Metric]:
    for name, documentation in _BY_MODEL.items():
        family = GaugeMetricFamily(f"runtally_reconciliation_{name}", documentation, labels=["model"])
        for each in found.models:
            dollars: Decimal = getattr(each, name)
            # Prometheus has no decimals: its numbers raise alarms and are no bill.
            family.add_metric([each.model], float(dollars))
        yield family
    differing = sum(each.unexplained for each in found.models)
    yield _gauge("reconciliation_unexplained_differences", "Differences that need attention.", differing)
    yield _gauge(
        "reconciliation_wrong_prices", "Unit prices of the provider that are not ours.", len(found.prices)
    )
    yield _gauge("reconciliation_failed", "Whether the latest comparison failed.", found.problem is not None)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"runtally_{name}", documentation, value=float(value))
