"""ServerMetrics: the metrics of one server, which its parts get where they are built."""

from dataclasses import dataclass
from typing import Self

from app.metrics.event_loop import EventLoopLag
from app.metrics.families import gauges
from app.metrics.gateway import GatewayMetrics
from app.metrics.labels import KnownNames
from app.metrics.receipts import ReceiptMetrics
from app.metrics.registry import MetricsRegistry
from app.metrics.runs import RunMetrics
from app.metrics.webhooks import WebhookMetrics


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """What is counted where it happens, and the registry of all metrics."""

    registry: MetricsRegistry
    models: KnownNames
    runs: RunMetrics
    gateway: GatewayMetrics
    receipts: ReceiptMetrics
    webhooks: WebhookMetrics
    event_loop: EventLoopLag

    @classmethod
    def create(cls, *, graphs: KnownNames, models: KnownNames, version: str, role: str) -> Self:
        """The metrics of a server with these graphs and priced models."""
        registry = MetricsRegistry()
        instruments = registry.instruments
        registry.add(
            lambda: [
                gauges(
                    "build_info",
                    "This process; always 1.",
                    labels=["version", "role"],
                    samples=[([version, role], 1)],
                )
            ]
        )
        metrics = cls(
            registry=registry,
            models=models,
            runs=RunMetrics(instruments, graphs=graphs),
            gateway=GatewayMetrics(instruments, models=models),
            receipts=ReceiptMetrics(instruments, models=models),
            webhooks=WebhookMetrics(instruments),
            event_loop=EventLoopLag(instruments),
        )
        registry.add(metrics.gateway.rate_limits.families)
        return metrics
