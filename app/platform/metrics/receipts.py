"""ReceiptMetrics: what was charged, and how soon."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.platform.metrics.families import NAMESPACE, KnownNames
from app.usage.records import TokenUsage

_LAG_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 3600)
_KINDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write_5m": "cache_write_5m_tokens",
    "cache_write_1h": "cache_write_1h_tokens",
}


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """A receipt that is in the database now."""

    model: str
    basis: str
    origin: str
    usage: TokenUsage
    charged_credits: int
    cost_usd: Decimal
    lag_s: float | None
    """Since the end of its message; None for one that another process has begun."""


class ReceiptMetrics:
    """The receipts that this process has stored."""

    def __init__(
        self, registry: CollectorRegistry | None = None, *, models: KnownNames | None = None
    ) -> None:
        """Without a registry nothing is exposed; `models` are the names that may be a label."""
        self._models = models or KnownNames()
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        histogram = partial(Histogram, namespace=NAMESPACE, registry=registry)
        self._receipts = counter(
            "receipts", "Receipts that this process has stored.", ["basis", "origin", "model"]
        )
        self._credits = counter("charged_credits", "Their credits; ten million are a dollar.", ["model"])
        self._cost = counter("cost_usd", "Their cost at the provider, in dollars.", ["model"])
        self._tokens = counter("tokens", "Their tokens.", ["kind", "model"])
        self._unpriced = counter("unpriced_messages", "Messages of which a part has no known price.")
        self._lag = histogram(
            "receipt_lag_seconds",
            "From the end of a message to its receipt in the database.",
            buckets=_LAG_BUCKETS,
        )

    def receipt_stored(self, receipt: StoredReceipt) -> None:
        """A receipt was stored by this process, once for each."""
        model = self._models.label(receipt.model)
        self._receipts.labels(receipt.basis, receipt.origin, model).inc()
        self._credits.labels(model).inc(receipt.charged_credits)
        # Prometheus has no decimals: its numbers raise alarms and are no bill.
        self._cost.labels(model).inc(float(receipt.cost_usd))
        for kind, name in _KINDS.items():
            self._tokens.labels(kind, model).inc(getattr(receipt.usage, name))
        if receipt.lag_s is not None:
            self._lag.observe(receipt.lag_s)

    def message_unpriced(self) -> None:
        """A message has a part without a known price."""
        self._unpriced.inc()
