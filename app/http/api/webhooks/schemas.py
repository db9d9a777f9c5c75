"""JSON of webhooks and their deliveries."""

from dataclasses import replace
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field

from app.http.parameters import MomentParam, NeverNull
from app.http.response_model import Moment, ResponseModel
from app.requests.wire_models import InputModel
from app.webhooks.message import WebhookEvent, WebhookFormat, message_id
from app.webhooks.records import Delivery, DeliveryStatus, DisabledReason, Registration
from app.webhooks.retries import DeliveryProblem


def _each_once(events: list[WebhookEvent]) -> list[WebhookEvent]:
    if len(set(events)) < len(events):
        raise ValueError("names an event twice")
    return events


Events = Annotated[
    list[WebhookEvent],
    Field(min_length=1, max_length=20, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_each_once),
]
Description = Annotated[str, Field(max_length=200)]
Token = Annotated[str, Field(pattern=r"^[!-~]{8,500}$")]
"""Without blanks: it is sent in a header."""
_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class WebhookRequest(InputModel):
    """A URL and the events sent to it."""

    url: str
    events: Events
    description: Description | None = None
    format: Annotated[
        WebhookFormat,
        Field(description="`cloudevents` (OpenMeter) and `stripe` (meter events) are sent receipts alone."),
    ] = "runtally"
    event_type: Annotated[
        _Name | None,
        Field(description="The CloudEvents' `type`, `runtally.receipt` by default; Stripe's `event_name`."),
    ] = None
    subject: Annotated[
        _Name | None,
        Field(
            description="The CloudEvents' subject, Stripe's customer; if null, the receipt's end user, "
            "and without one the account's id."
        ),
    ] = None
    secret: Annotated[
        Token | None,
        Field(
            description="The receiver's token, for `cloudevents` and `stripe`.",
            repr=False,
        ),
    ] = None

    @property
    def registration(self) -> Registration:
        """The registration that the service expects."""
        return Registration(
            self.url, tuple(self.events), self.description, self.format, self.event_type, self.subject
        )


class WebhookChange(InputModel):
    """Fields to change; omitted fields stay unchanged."""

    url: NeverNull[str] = None
    events: NeverNull[Events] = None
    description: Description | None = None
    enabled: NeverNull[Annotated[bool, Field(strict=True)]] = None

    def applied_to(self, webhook: Registration) -> Registration:
        return replace(
            webhook,
            url=webhook.url if self.url is None else self.url,
            events=webhook.events if self.events is None else tuple(self.events),
            description=self.description if "description" in self.model_fields_set else webhook.description,
            enabled=webhook.enabled if self.enabled is None else self.enabled,
        )


class NewSecret(InputModel):
    """The secret that replaces another."""

    secret: Annotated[
        Token | None,
        Field(description="The receiver's token, for `cloudevents` and `stripe`.", repr=False),
    ] = None


class ReplayRequest(InputModel):
    """The period in which the deliveries to repeat were created."""

    since: Annotated[MomentParam, Field(alias="from")]
    until: Annotated[MomentParam | None, Field(alias="to", description="Exclusive.")] = None


class WebhookResponse(ResponseModel):
    """A webhook; `disabledReason` is `by_request`, `gone` or `failing`."""

    id: UUID
    url: str
    events: tuple[WebhookEvent, ...]
    description: str | None
    format: WebhookFormat
    event_type: str | None
    subject: str | None
    enabled: bool
    disabled_reason: DisabledReason | None
    disabled_at: Moment | None
    created_at: Moment


class _Secret(ResponseModel):
    secret: str


class WebhookWithSecret(WebhookResponse, _Secret):
    """A webhook and its secret, which is shown only once."""


class DeliveryResponse(ResponseModel):
    """A delivery; `id` is the `webhook-id` header. `nextAttemptAt` is null unless it is pending."""

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
        return cls.built_from(
            delivery,
            id=message_id(delivery.id),
            next_attempt_at=delivery.next_attempt_at if delivery.status == "pending" else None,
        )


class Replayed(ResponseModel):
    """The number of deliveries that are repeated."""

    replayed: int
