"""Gauges and counters that are computed while they are scraped."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

NAMESPACE = "runtally"
"""The beginning of all names of metrics."""

Family: TypeAlias = Metric
"""A metric with all its samples."""


def gauge(name: str, documentation: str, value: float) -> Family:
    """A gauge without labels; `name` without the prefix."""
    return GaugeMetricFamily(f"{NAMESPACE}_{name}", documentation, value=float(value))


def gauges(
    name: str,
    documentation: str,
    *,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float]],
) -> Family:
    """A gauge with labels: the values of the labels and the number of each sample."""
    family = GaugeMetricFamily(f"{NAMESPACE}_{name}", documentation, labels=list(labels))
    for values, number in samples:
        family.add_metric(list(values), float(number))
    return family


def counters(
    name: str, documentation: str, *, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> Family:
    """A counter with labels, like `gauges`."""
    family = CounterMetricFamily(f"{NAMESPACE}_{name}", documentation, labels=list(labels))
    for values, number in samples:
        family.add_metric(list(values), float(number))
    return family
