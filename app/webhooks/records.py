"""The data of webhooks and their deliveries."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.errors import Invalid
from app.ids import AccountId
from app.webhooks.message import WebhookEvent, WebhookFormat
from app.webhooks.retries import DeliveryProblem

DisabledReason = Literal["by_request", "gone", "failing"]


DeliveryStatus = Literal["pending", "delivered", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Registration:
    """The properties of a webhook that its account sets."""

    url: str
    events: tuple[WebhookEvent, ...]
    description: str | None = None
    format: WebhookFormat = "runtally"
    event_type: str | None = None
    subject: str | None = None
    enabled: bool = True

    def check(self) -> None:
        """Raise `Invalid` naming a field that does not go with the format."""
        if self.format == "runtally":
            for name, value in (("eventType", self.event_type), ("subject", self.subject)):
                if value is not None:
                    raise Invalid.field(name, "is only for the formats cloudevents and stripe")
        elif set(self.events) != {"receipt.created"}:
            raise Invalid.field("events", f"must be receipt.created alone in the format {self.format}")
        elif self.format == "stripe" and self.event_type is None:
            raise Invalid.field("eventType", "is needed in the format stripe: the event name of the meter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Registration):
    """A stored webhook, without its secret."""

    id: UUID
    account_id: AccountId
    disabled_reason: DisabledReason | None
    disabled_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for one webhook and the state of its delivery."""

    id: UUID
    event: WebhookEvent
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime
    last_status: int | None
    last_error: DeliveryProblem | None
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery that no other worker makes until the claim expires."""

    id: UUID
    webhook_id: UUID
    account_id: AccountId
    url: str
    secret: str = field(repr=False)
    format: WebhookFormat
    event_type: str | None
    subject: str | None
    payload: Any = field(repr=False)
    attempts: int
    """Including this one."""
    claimed_until: datetime
    """When the claim expires; distinguishes it from later claims of the same delivery."""


@dataclass(frozen=True, slots=True)
class DeliveryBacklog:
    """Deliveries of all accounts that are to be made, also those that are tried again later."""

    pending: int
    """As far as they are counted."""
    oldest_s: float
    """Since the event of the oldest one; 0: none is pending."""
    overdue_s: float
    """For how long the next call has been due; 0: none is."""
