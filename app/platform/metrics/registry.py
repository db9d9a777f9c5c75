"""MetricsRegistry: the metrics of one server; two servers of a process share none."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.platform.metrics.families import Family, gauge

_CREATED = "_created"
"""The time of creation that the client adds to every counter and histogram."""


class MetricsRegistry(Collector):
    """Instruments register themselves in `instruments`; everything else is read when it is scraped."""

    def __init__(self) -> None:
        self.instruments = CollectorRegistry()
        self._reads: list[Callable[[], Iterable[Family]]] = []
        ProcessCollector(registry=self.instruments)
        PlatformCollector(registry=self.instruments)
        GCCollector(registry=self.instruments)

    def add(self, read: Callable[[], Iterable[Family]]) -> None:
        """Metrics that `read` computes at each scrape; it must not wait."""
        self._reads.append(read)

    def add_gauge(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """A gauge whose number is read at each scrape."""
        self.add(lambda: [gauge(name, documentation, read())])

    def collect(self) -> Iterator[Metric]:
        """Every metric, those without a sample too: their names exist from the start."""
        for family in self.instruments.collect():
            family.samples = [each for each in family.samples if not each.name.endswith(_CREATED)]
            yield family
        for read in self._reads:
            yield from read()

    def render(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)
