"""ObjectMetrics: requests to the storage of large contents."""

from functools import partial
from typing import Literal, TypeAlias, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.platform.metrics.families import NAMESPACE

ObjectOperation: TypeAlias = Literal["put", "get", "head", "delete"]
ObjectFailure: TypeAlias = Literal["unavailable", "lost"]
"""`lost`: a content is missing or another one, however often it is read."""

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60)


class ObjectMetrics:
    """The requests of this process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Without a registry nothing is exposed."""
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        self._seconds = Histogram(
            "object_seconds",
            "Requests to the storage of large contents, with their repetitions.",
            ["operation"],
            namespace=NAMESPACE,
            registry=registry,
            buckets=_BUCKETS,
        )
        self._bytes = counter("object_bytes", "Bytes of large contents, as stored.", ["operation"])
        self._failed = counter("object_failures", "Contents that could not be used.", ["reason"])
        # Also those that are 0: a first failure must be an increase.
        for reason in get_args(ObjectFailure):
            self._failed.labels(reason)

    def answered(self, operation: ObjectOperation, *, after_s: float) -> None:
        self._seconds.labels(operation).observe(after_s)

    def passed(self, operation: ObjectOperation, size: int) -> None:
        self._bytes.labels(operation).inc(size)

    def failed(self, reason: ObjectFailure) -> None:
        """A content could not be written, read or deleted."""
        self._failed.labels(reason).inc()
