"""What metrics share: their prefix, bounded labels, and families that are computed while they are scraped."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

NAMESPACE = "runtally"
"""The beginning of all names of metrics."""

Family: TypeAlias = Metric
"""A metric with all its samples."""

OTHER = "other"
"""The value of a label for every name that is not known."""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that may be values of a label, whatever names arrive from outside.

    A server knows all of them when it starts.
    """

    names: frozenset[str] = frozenset()
    normalize: Callable[[str], str] = str
    """Makes one name of all its spellings."""

    def label(self, name: str) -> str:
        known = self.normalize(name)
        return known if known in self.names else OTHER


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
