"""Backlog of deliveries -> metrics; pure."""

from collections.abc import Iterator

from app.platform.metrics.families import Family, gauge
from app.webhooks.records import DeliveryBacklog


def backlog_metrics(found: DeliveryBacklog) -> Iterator[Family]:
    """The deliveries of all accounts."""
    yield gauge("webhook_deliveries_pending", "Deliveries to be made; counted to 10 000.", found.pending)
    yield gauge("webhook_oldest_pending_seconds", "Since the event of the oldest of them.", found.oldest_s)
    yield gauge("webhook_overdue_seconds", "For how long the next call has been due.", found.overdue_s)
