"""WebhookMetrics: what became of calls of webhooks."""

from functools import partial
from typing import Literal, TypeAlias, get_args

from prometheus_client import CollectorRegistry, Counter

from app.platform.metrics.families import NAMESPACE

DeliveryResult: TypeAlias = Literal["delivered", "retried", "failed", "unrecorded"]
"""`retried`: it failed and is tried again; `failed`: for the last time; `unrecorded`: the result could not be
stored, so the call is made again."""


class WebhookMetrics:
    """The calls that this process has made."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Without a registry nothing is exposed."""
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        self._deliveries = counter("webhook_deliveries", "Calls of webhooks by this process.", ["result"])
        for result in get_args(DeliveryResult):
            # Also those that are 0: a first failure must be an increase.
            self._deliveries.labels(result)

    def called(self, result: DeliveryResult) -> None:
        self._deliveries.labels(result).inc()
