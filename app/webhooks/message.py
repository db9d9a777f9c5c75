"""Webhook messages as defined by Standard Webhooks: events, secrets, signatures; pure."""

import base64
import json
import secrets
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

from standardwebhooks import Webhook as Signature

WebhookEvent = Literal[
    "run.completed",
    "run.failed",
    "receipt.created",
    "budget.threshold",
    "budget.reached",
    "credit.topup_requested",
    "approval.requested",
    "batch.completed",
]
EVENTS: tuple[WebhookEvent, ...] = get_args(WebhookEvent)
MONEY_EVENTS: frozenset[WebhookEvent] = frozenset(
    {"receipt.created", "budget.threshold", "budget.reached", "credit.topup_requested"}
)
"""Events with data that requires the scope `receipts:read`."""

WebhookFormat = Literal["runtally", "cloudevents", "stripe"]
"""What a webhook is sent: an event of ours, a CloudEvent, or a meter event of Stripe."""

_SECRET_BYTES = 32
_ID_PREFIX = "msg_"
USER_AGENT = "Runtally-Webhooks/1"


class WebhookMessage(NamedTuple):
    """The body of a request and its headers."""

    body: bytes
    headers: dict[str, str]
    duplicate: bytes | None = None
    """What a receiver answers, with status 400, to what it already has: that is delivered."""


def mint_secret() -> str:
    """A new signing secret: 256 bits in the format of Standard Webhooks libraries."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"


def message_id(delivery_id: UUID) -> str:
    """The `webhook-id` of a delivery: the same for every attempt."""
    return f"{_ID_PREFIX}{delivery_id.hex}"


def delivery_id(shown: str) -> UUID | None:
    """Parse a `webhook-id`; None if it is invalid."""
    digits = shown.removeprefix(_ID_PREFIX)
    try:
        found = UUID(digits)
    except ValueError:
        return None
    return found if message_id(found) == shown else None


def sign_message(delivery: UUID, payload: Any, secret: str, *, at: datetime) -> WebhookMessage:
    body = json.dumps(payload, separators=(",", ":"))
    named = message_id(delivery)
    headers = {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": named,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Signature(secret).sign(named, at, body),
    }
    return WebhookMessage(body.encode(), headers)
