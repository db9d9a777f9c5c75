"""EgressMetrics: connections of sandboxed commands to other machines."""

from functools import partial
from typing import Literal, TypeAlias, get_args

from prometheus_client import CollectorRegistry, Counter

from app.platform.metrics.families import NAMESPACE

EgressRefusal: TypeAlias = Literal["request", "host", "address", "unreachable", "tls", "limit", "timeout"]
"""What a connection is refused for. `limit`: of connections at once, or of bytes."""


class EgressMetrics:
    """The connections of this process's runs."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Without a registry nothing is exposed."""
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        self._connections = counter(
            "egress_connections", "Connections of sandboxed commands to hosts of their graphs."
        )
        self._refused = counter(
            "egress_refused", "Connections of sandboxed commands that were refused or cut.", ["reason"]
        )
        self._bytes = counter(
            "egress_bytes",
            "Bytes that sandboxed commands have exchanged with hosts of their graphs.",
            ["direction"],
        )
        # Also those that are 0: a first refusal must be an increase.
        for reason in get_args(EgressRefusal):
            self._refused.labels(reason)

    def connected(self) -> None:
        self._connections.inc()

    def refused(self, reason: EgressRefusal) -> None:
        self._refused.labels(reason).inc()

    def passed(self, direction: Literal["sent", "received"], size: int) -> None:
        self._bytes.labels(direction).inc(size)
