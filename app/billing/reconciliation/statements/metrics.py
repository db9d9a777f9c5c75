"""Statement of the organization -> metrics; pure."""

from collections import Counter
from collections.abc import Iterator

from app.billing.reconciliation.statements.records import OperatorStatement
from app.platform.metrics.families import Family, KnownNames, gauge, gauges

_BY_MODEL = {
    "recorded_usd": "What receipts charge, before the markup.",
    "reported_usd": "The provider's counts of our keys, at our prices.",
    "residual_usd": "Reported minus recorded.",
    "explained_usd": "The explained part of the residual.",
    "unexplained_usd": "The unexplained part of the residual.",
    "foreign_usd": "The provider's counts of other keys, at our prices.",
}


def reconciliation_metrics(found: OperatorStatement, *, models: KnownNames) -> Iterator[Family]:
    """The sums by model, those of models without a known name together."""
    organization = found.organization
    if (until := found.compared_until) is not None:
        yield gauge(
            "reconciliation_compared_until_timestamp_seconds",
            "Until when all was compared.",
            until.timestamp(),
        )
    for name, documentation in _BY_MODEL.items():
        dollars: Counter[str] = Counter()
        for each in organization.models:
            # Prometheus has no decimals: its numbers raise alarms and are no bill.
            dollars[models.label(each.model)] += float(getattr(each, name))  # type: ignore[assignment]
        yield gauges(
            f"reconciliation_{name}",
            documentation,
            labels=["model"],
            samples=[([model], amount) for model, amount in sorted(dollars.items())],
        )
    differing = sum(each.unexplained for each in organization.models)
    yield gauge("reconciliation_unexplained_differences", "Differences that need attention.", differing)
    yield gauge(
        "reconciliation_wrong_prices",
        "Unit prices of the provider that are not ours.",
        len(organization.prices),
    )
    yield gauge(
        "reconciliation_failed", "Whether the latest comparison failed.", organization.problem is not None
    )
