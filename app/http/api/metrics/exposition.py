"""A statement of the organization as Prometheus metrics; the only module that imports its client."""

from collections.abc import Iterator
from decimal import Decimal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.billing.reconciliation.statements.records import OrganizationStatement, ReconciliationStatement

_BY_MODEL = {
    "recorded_usd": "What receipts charge, before the markup.",
    "reported_usd": "The provider's counts of our keys, at our prices.",
    "residual_usd": "Reported minus recorded.",
    "explained_usd": "The explained part of the residual.",
    "unexplained_usd": "The unexplained part of the residual.",
    "foreign_usd": "The provider's counts of other keys, at our prices.",
}


class _ReconciliationCollector(Collector):
    def __init__(self, found: ReconciliationStatement) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        until = self._found.compared_until
        if until is not None:
            yield _gauge(
                "compared_until_timestamp_seconds", "Until when all was compared.", until.timestamp()
            )
        if self._found.organization is not None:
            yield from _of_organization(self._found.organization)


def exposition(found: ReconciliationStatement) -> bytes:
    """The statement in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_ReconciliationCollector(found))
    return generate_latest(registry)


def _of_organization(found: OrganizationStatement) -> Iterator[Metric]:
    for name, documentation in _BY_MODEL.items():
        family = GaugeMetricFamily(f"runtally_reconciliation_{name}", documentation, labels=["model"])
        for each in found.models:
            dollars: Decimal = getattr(each, name)
            # Prometheus has no decimals: its numbers raise alarms and are no bill.
            family.add_metric([each.model], float(dollars))
        yield family
    differing = sum(each.unexplained for each in found.models)
    yield _gauge("unexplained_differences", "Differences that need attention.", differing)
    yield _gauge("wrong_prices", "Unit prices of the provider that are not ours.", len(found.prices))
    yield _gauge("failed", "Whether the latest comparison failed.", found.problem is not None)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"runtally_reconciliation_{name}", documentation, value=float(value))
