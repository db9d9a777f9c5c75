"""ServerMetrics: the metrics of one server, which its parts get where they are built."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Self

from prometheus_client import CollectorRegistry, Histogram

from app.platform.metrics.egress import EgressMetrics
from app.platform.metrics.families import NAMESPACE, KnownNames, gauges
from app.platform.metrics.gateway import GatewayMetrics
from app.platform.metrics.objects import ObjectMetrics
from app.platform.metrics.receipts import ReceiptMetrics
from app.platform.metrics.registry import MetricsRegistry
from app.platform.metrics.runs import RunMetrics
from app.platform.metrics.webhooks import WebhookMetrics

INTERVAL_S = 0.25
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class EventLoopLag:
    """Sleeps, and measures by how much longer that took: for so long everything else had to wait, too."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        histogram = partial(Histogram, namespace=NAMESPACE, registry=registry)
        self._lag = histogram(
            "event_loop_lag_seconds", "By how much a sleep of 0.25 s was late.", buckets=_BUCKETS
        )

    async def watch(self) -> NoReturn:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self._lag.observe(max(0.0, loop.time() - due))


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
