"""What receives receipts in other systems: Stripe's meter events and OpenMeter, as they behave."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import time
from typing import Any, Literal
from urllib.parse import parse_qsl

from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback

TOKEN = "sk_test_51Habcdefghijklmnop"
Fault = Literal["limited", "broken", "lost"]
"""429; 500 for a request that is not processed; 500 for one that is."""
_DAY_S = 86_400


@dataclass(slots=True)
class BillingReceiver:
    """Answers the first requests with these faults, and the others as the real one does."""

    faults: list[Fault]
    url: str = ""
    requests: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    """What was taken, by its identifier."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body = await read_body(receive)
        self.requests += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault in {"limited", "broken"}:
            status, answer = (429 if fault == "limited" else 500), error("Try again later.")
        elif headers.get("authorization") != f"Bearer {TOKEN}":
            status, answer = 401, error("Invalid API Key provided: sk_test_********mnop")
        else:
            status, answer = self.taken(scope["path"], headers["content-type"], body)
        if fault == "lost":
            status, answer = 500, error("An unknown error occurred.")
        pairs = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": answer})

    def taken(self, path: str, media_type: str, body: bytes) -> tuple[int, bytes]:
        """The answer to a request with the right token."""
        raise LookupError(path, media_type, body)

    def sums(self) -> Counter[str]:
        """What each customer is charged."""
        raise LookupError


class Stripe(BillingReceiver):
    """`POST /v1/billing/meter_events`."""

    path = "/v1/billing/meter_events"

    def taken(self, path: str, media_type: str, body: bytes) -> tuple[int, bytes]:
        """200 for a new event; 400 for one that is refused, and for one that is there."""
        if path != self.path or media_type != "application/x-www-form-urlencoded":
            return 404, error(f"Unrecognized request URL (POST: {path}).")
        event = dict(parse_qsl(body.decode(), strict_parsing=True))
        identifier, moment = event["identifier"], int(event["timestamp"])
        if not event["payload[stripe_customer_id]"].startswith("cus_"):
            return 400, error("No such customer.")
        if not event["payload[value]"].removeprefix("-").isdigit() or len(identifier) > 100:
            return 400, error("Invalid payload.")
        if not time() - 35 * _DAY_S <= moment <= time() + 300:
            return 400, error("The timestamp must be within the past 35 calendar days.")
        if identifier in self.kept:
            return 400, error(f"An event already exists with identifier {identifier}.")
        self.kept[identifier] = event
        return 200, json.dumps({"object": "billing.meter_event", "identifier": identifier}).encode()

    def sums(self) -> Counter[str]:
        """Credits by customer."""
        return summed(
            (each["payload[stripe_customer_id]"], each["payload[value]"]) for each in self.kept.values()
        )


class OpenMeter(BillingReceiver):
    """`POST /api/v1/events`: an event that it has is taken again, and not counted."""

    path = "/api/v1/events"

    def taken(self, path: str, media_type: str, body: bytes) -> tuple[int, bytes]:
        """204 for an event, also for one that is there."""
        if path != self.path or media_type != "application/cloudevents+json":
            return 400, error("invalid content type")
        event = json.loads(body)
        if event["specversion"] != "1.0" or not all(
            event.get(name) for name in ("id", "source", "type", "subject")
        ):
            return 400, error("invalid event")
        self.kept.setdefault(f"{event['source']} {event['id']}", event)
        return 204, b""

    def sums(self) -> Counter[str]:
        """Credits by subject."""
        return summed((each["subject"], each["data"]["chargedCredits"]) for each in self.kept.values())


def error(message: str) -> bytes:
    """The body of a refusal."""
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()


def summed(charges: Iterable[tuple[str, Any]]) -> Counter[str]:
    """Sums by name."""
    total: Counter[str] = Counter()
    for name, value in charges:
        total[name] += int(value)
    return total


@asynccontextmanager
async def a_billing_receiver(
    kind: type[Stripe | OpenMeter], *faults: Fault
) -> AsyncIterator[Stripe | OpenMeter]:
    """Receive on loopback while the body runs."""
    receiver = kind([*faults])
    async with serve_on_loopback(receiver) as url:
        receiver.url = url + receiver.path
        yield receiver
