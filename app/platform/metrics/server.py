"""ServerMetrics: the metrics of one server, which its parts get where they are built."""

from dataclasses import dataclass
from typing import Self

from app.platform.metrics.egress import EgressMetrics
from app.platform.metrics.event_loop import EventLoopLag
from app.platform.metrics.families import KnownNames, gauges
from app.platform.metrics.gateway import GatewayMetrics
from app.platform.metrics.objects import ObjectMetrics
from app.platform.metrics.receipts import ReceiptMetrics
from app.platform.metrics.registry import MetricsRegistry
from app.platform.metrics.runs import RunMetrics
from app.platform.metrics.webhooks import WebhookMetrics


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """What is counted where it happens, and the registry of all metrics."""

    registry: MetricsRegistry
    models: KnownNames
    runs: RunMetrics
    gateway: GatewayMetrics
    egress: EgressMetrics
    objects: ObjectMetrics
    receipts: ReceiptMetrics
    webhooks: WebhookMetrics
    event_loop: EventLoopLag

    @classmethod
    def create(cls, *, graphs: KnownNames, models: KnownNames, version: str, role: str) -> Self:
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
            egress=EgressMetrics(instruments),
            objects=ObjectMetrics(instruments),
            receipts=ReceiptMetrics(instruments, models=models),
            webhooks=WebhookMetrics(instruments),
            event_loop=EventLoopLag(instruments),
        )
        registry.add(metrics.gateway.rate_limits.families)
        return metrics
