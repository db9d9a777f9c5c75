"""The message of a delivery in the format of its webhook; pure."""

import json
from datetime import datetime
from typing import assert_never
from urllib.parse import urlencode

from app.webhooks.message import USER_AGENT, WebhookMessage, sign_message
from app.webhooks.records import ClaimedDelivery

CLOUD_EVENT_TYPE = "runtally.receipt"
"""Of a webhook that names no other."""


def build_message(claimed: ClaimedDelivery, *, at: datetime) -> WebhookMessage:
    match claimed.format:
        case "runtally":
            return sign_message(claimed.id, claimed.payload, claimed.secret, at=at)
        case "cloudevents":
            return _cloud_event(claimed)
        case "stripe":
            return _meter_event(claimed)
        case _:
            assert_never(claimed.format)


def _cloud_event(claimed: ClaimedDelivery) -> WebhookMessage:
    receipt = claimed.payload["data"]
    event = {
        "specversion": "1.0",
        "id": receipt["id"],
        "source": f"/runtally/accounts/{claimed.account_id}",
        "type": claimed.event_type or CLOUD_EVENT_TYPE,
        "subject": _subject(claimed),
        "time": receipt["usedAt"],
        "datacontenttype": "application/json",
        "data": receipt,
    }
    body = json.dumps(event, separators=(",", ":")).encode()
    return WebhookMessage(body, _headers(claimed, "application/cloudevents+json"))


def _meter_event(claimed: ClaimedDelivery) -> WebhookMessage:
    """Credits, because a value is a whole number; nothing that is older than Stripe accepts."""
    receipt = claimed.payload["data"]
    moment = receipt["createdAt" if receipt["basis"] == "adjustment" else "usedAt"]
    fields = {
        "event_name": claimed.event_type,
        "identifier": receipt["id"],
        "timestamp": int(datetime.fromisoformat(moment).timestamp()),
        "payload[stripe_customer_id]": _subject(claimed),
        "payload[value]": receipt["chargedCredits"],
    }
    return WebhookMessage(
        urlencode(fields).encode(),
        _headers(claimed, "application/x-www-form-urlencoded"),
        duplicate=f"already exists with identifier {receipt['id']}".encode(),
    )


def _subject(claimed: ClaimedDelivery) -> str:
    return str(claimed.subject or claimed.payload["data"]["endUser"] or claimed.account_id)


def _headers(claimed: ClaimedDelivery, media_type: str) -> dict[str, str]:
    return {
        "content-type": media_type,
        "user-agent": USER_AGENT,
        "authorization": f"Bearer {claimed.secret}",
    }
