"""The JSON of webhooks and their deliveries."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from app.http.parameters import NEVER_NULL
from app.http.parameters import Moment as GivenMoment
from app.http.schemas import Moment, ResponseModel
from app.requests import InputModel
from app.webhooks.message import WebhookEvent, message_id
from app.webhooks.repository import Delivery, DeliveryStatus, DisabledReason, Webhook
from app.webhooks.retries import DeliveryProblem
from app.webhooks.service import Registration


def _each_once(events: list[WebhookEvent]) -> list[WebhookEvent]:
    if len(set(events)) < len(events):
        message = "names an event twice"
        raise ValueError(message)
    return events


Events = Annotated[
    list[WebhookEvent],
    Field(min_length=1, max_length=20, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_each_once),
]
Description = Annotated[str, Field(max_length=200)]


class WebhookRequest(InputModel):
    """A URL, and what it wants to hear of."""

    url: str
    events: Events
    description: Description | None = None

    @property
    def registration(self) -> Registration:
        """As the service takes it."""
        return Registration(self.url, tuple(self.events), self.description)


class WebhookChange(InputModel):
    """What is to be different; what is left out stays as it is."""

    url: Annotated[str | None, NEVER_NULL] = None
    events: Annotated[Events | None, NEVER_NULL] = None
    description: Description | None = None
    enabled: Annotated[Annotated[bool, Field(strict=True)] | None, NEVER_NULL] = None

    @field_validator("url", "events", "enabled")
    @classmethod
    def _is_something(cls, value: object, info: ValidationInfo) -> object:
        # Only what was sent comes here: a webhook without a URL or events is none.
        if value is None:
            message = "must be true or false" if info.field_name == "enabled" else "must not be null"
            raise ValueError(message)
        return value

    def applied_to(self, webhook: Registration) -> Registration:
        """The webhook with what was sent in place."""
        return Registration(
            url=webhook.url if self.url is None else self.url,
            events=webhook.events if self.events is None else tuple(self.events),
            description=self.description if "description" in self.model_fields_set else webhook.description,
            enabled=webhook.enabled if self.enabled is None else self.enabled,
        )


class ReplayRequest(InputModel):
    """Which failed deliveries are to be made again, by when they were created."""

    since: Annotated[GivenMoment, Field(alias="from")]
    until: Annotated[GivenMoment | None, Field(alias="to", description="Exclusive.")] = None


class WebhookResponse(ResponseModel):
    """A webhook; `disabledReason` is `by_request`, `gone` or `failing`."""

    id: UUID
    url: str
    events: tuple[WebhookEvent, ...]
    description: str | None
    enabled: bool
    disabled_reason: DisabledReason | None
    disabled_at: Moment | None
    created_at: Moment

    @classmethod
    def of(cls, webhook: Webhook) -> Self:
        """Show a webhook."""
        return cls.model_validate(webhook)


class _Secret(ResponseModel):
    secret: str


class WebhookWithSecret(WebhookResponse, _Secret):
    """A webhook and its signing secret, which is shown once."""

    @classmethod
    def with_secret(cls, webhook: Webhook, secret: str) -> "WebhookWithSecret":
        """Show a webhook and its secret."""
        return cls(**WebhookResponse.of(webhook).model_dump(), secret=secret)


class DeliveryResponse(ResponseModel):
    """A delivery; `id` is the `webhook-id` the receiver sees. `nextAttemptAt` is null at the end."""

    id: str
    event: WebhookEvent
    status: DeliveryStatus
    attempts: int
    next_attempt_at: Moment | None
    last_status: int | None
    last_error: DeliveryProblem | None
    created_at: Moment
    delivered_at: Moment | None

    @classmethod
    def of(cls, delivery: Delivery) -> "DeliveryResponse":
        """Show a delivery."""
        next_attempt_at: datetime | None = delivery.next_attempt_at
        return cls(
            id=message_id(delivery.id),
            event=delivery.event,
            status=delivery.status,
            attempts=delivery.attempts,
            next_attempt_at=next_attempt_at if delivery.status == "pending" else None,
            last_status=delivery.last_status,
            last_error=delivery.last_error,
            created_at=delivery.created_at,
            delivered_at=delivery.delivered_at,
        )


class Replayed(ResponseModel):
    """How many deliveries are made again."""

    replayed: int
