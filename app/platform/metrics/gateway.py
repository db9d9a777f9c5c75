"""GatewayMetrics: what the gateway adds to a model call, and what the provider answers."""

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.platform.metrics.families import NAMESPACE, OTHER, KnownNames
from app.platform.metrics.rate_limits import RateLimits

_OVERHEAD_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 20)
_STATUSES = KnownNames(
    frozenset({"200", "400", "401", "402", "403", "404", "408", "409", "413", "422", "429"})
    | frozenset({"500", "502", "503", "504", "524", "529"})
)
_CODES = KnownNames(
    frozenset({"claude_code_version_too_old", "claude_code_key_creator_not_member"})
    | frozenset({"organization_on_hold", "organization_disabled", "organization_type_not_supported"})
    | frozenset({"contract_spend_limit_reached", "enforced_spend_limit_reached", "usage_limit_reached"})
    | frozenset({"credit_balance_too_low", "workspace_policy_violation", "region_not_supported"})
)
"""Codes of the provider; the log has the others."""
_UNREACHABLE = "unreachable"


class GatewayMetrics:
    """The model calls of this process."""

    def __init__(
        self, registry: CollectorRegistry | None = None, *, models: KnownNames | None = None
    ) -> None:
        """Without a registry nothing is exposed; `models` are the names that may be a label."""
        self.rate_limits = RateLimits(models or KnownNames())
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        histogram = partial(Histogram, namespace=NAMESPACE, registry=registry)
        self._overhead = histogram(
            "gateway_overhead_seconds",
            "From the last byte of an agent's request to its last byte on the way to the provider.",
            buckets=_OVERHEAD_BUCKETS,
        )
        self._responses = counter("provider_responses", "Answers of the provider to model calls.", ["status"])
        self._provider_refused = counter(
            "provider_refusals",
            "Model calls that the provider has refused because of this server's operator.",
            ["code"],
        )
        self._refused = counter("gateway_refused", "Model calls that the gateway has refused.", ["reason"])
        # Also those that are 0: a first failure must be an increase.
        for status in ("200", "429", "529", _UNREACHABLE, OTHER):
            self._responses.labels(status)
        for code in (*_CODES.names, OTHER):
            self._provider_refused.labels(code)

    def request_sent(self, *, after_s: float) -> None:
        """A whole request was sent to the provider, so long after its agent had sent it."""
        self._overhead.observe(after_s)

    def provider_responded(self, status: int, headers: Mapping[str, str], *, model: str) -> None:
        """The provider has answered a call of this model; `headers` with names in lower case."""
        self._responses.labels(_STATUSES.label(str(status))).inc()
        self.rate_limits.update(headers, model=model)

    def provider_refused(self, code: str) -> None:
        """A call was refused because of the operator; `code` is the provider's."""
        self._provider_refused.labels(_CODES.label(code)).inc()

    def provider_unreachable(self) -> None:
        self._responses.labels(_UNREACHABLE).inc()

    def call_refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()
