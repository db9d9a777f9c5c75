"""Receipts reach Stripe and OpenMeter, each once, whatever they answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import uuid4

import httpx
import pytest

from app.auth.records import KeyRecord
from app.billing.credit.ledger import usd
from app.billing.prices.price_list import Charge
from app.billing.receipts.records import NewReceipt, ReceiptBasis
from app.billing.receipts.repository import insert_receipts
from app.platform.db import Database
from app.usage.records import Attribution
from app.webhooks.records import Webhook
from app.webhooks.retries import DeliveryProblem
from tests.billing_receivers import TOKEN, BillingReceiver, Fault, OpenMeter, Stripe, a_billing_receiver
from tests.clients.quick_starts import programs
from tests.e2e.stories import World, a_client, until
from tests.factories import a_fact, an_account
from tests.integration.conftest import in_shared_world
from tests.integration.webhook_seam import deliveries, delivering, register, settled, webhooks_over

CUSTOMERS = ("cus_ada", "cus_bob")
FORMATS: Mapping[type[Stripe | OpenMeter], Mapping[str, Any]] = {
    Stripe: {"format": "stripe", "event_type": "agent_credits"},
    OpenMeter: {"format": "cloudevents"},
}
RECEIVERS = pytest.mark.parametrize("kind", FORMATS)


async def registered(
    database: Database, key: KeyRecord, receiver: BillingReceiver, *, token: str = TOKEN, **fields: Any
) -> Webhook:
    webhook, secret = await register(database, key, receiver.url, ["receipt.created"], token=token, **fields)
    assert secret == token
    return webhook


async def charge(database: Database, key: KeyRecord, credits_: Sequence[int]) -> None:
    """Messages of two end users in turn; a negative one is a correction of a message of long ago."""
    receipts = []
    for number, each in enumerate(credits_):
        at = datetime.now(UTC) - timedelta(days=90 if each < 0 else 0)
        attribution = Attribution(key.id, "claude_agents:assistant", None, end_user=CUSTOMERS[number % 2])
        fact = a_fact(key, f"msg_{number}_{each}", at=at)
        basis: ReceiptBasis = "adjustment" if each < 0 else "final"
        charged = Charge(usd(each), each, price_version="test")
        receipts.append(NewReceipt.of(replace(fact, attribution=attribution), charged, basis))
    async with database.transaction() as tx:
        await insert_receipts(tx, receipts)


@RECEIVERS
@pytest.mark.parametrize("faults", [(), ("limited", "broken"), ("lost",), ("lost", "limited", "lost")])
async def test_every_receipt_is_counted_once(
    database: Database, kind: type[Stripe | OpenMeter], faults: tuple[Fault, ...]
) -> None:
    key = await an_account(database)
    async with a_billing_receiver(kind, *faults) as receiver, delivering(database):
        webhook = await registered(database, key, receiver, **FORMATS[kind])
        await charge(database, key, [1_000_001, 45_000, 7, -12_345])
        found = await settled(database, webhook)
        for each in found:
            await webhooks_over(database).replay(webhook.account_id, str(webhook.id), f"msg_{each.id.hex}")
        await settled(database, webhook)

    assert [each.status for each in found] == ["delivered"] * 4
    assert receiver.sums() == {"cus_ada": 1_000_008, "cus_bob": 45_000 - 12_345}
    assert len(receiver.kept) == 4
    assert receiver.requests == 2 * 4 + len(faults)


@RECEIVERS
async def test_a_wrong_token_is_a_failure_that_shows_nothing(
    database: Database, kind: type[Stripe | OpenMeter]
) -> None:
    key = await an_account(database)
    async with a_billing_receiver(kind) as receiver, delivering(database):
        wrong = await registered(database, key, receiver, token="sk_of_another", **FORMATS[kind])
        await charge(database, key, [45_000])
        (failed,) = await settled(database, wrong)

    assert (failed.status, failed.last_status, failed.last_error) == ("failed", 401, "bad_status")
    assert failed.last_error in get_args(DeliveryProblem)
    assert receiver.kept == {}


async def test_what_stripe_refuses_for_another_reason_is_no_duplicate(database: Database) -> None:
    key = await an_account(database)
    async with a_billing_receiver(Stripe) as receiver, delivering(database):
        webhook = await registered(database, key, receiver, **FORMATS[Stripe], subject="ada@example.org")
        await charge(database, key, [45_000])
        (failed,) = await settled(database, webhook)

    assert (failed.status, failed.last_status) == ("failed", 400)
    assert [each.attempts for each in await deliveries(database, webhook)] == [4]


async def test_one_subject_may_stand_for_all(database: Database) -> None:
    key = await an_account(database)
    async with a_billing_receiver(OpenMeter) as receiver, delivering(database):
        named = await registered(
            database, key, receiver, **FORMATS[OpenMeter], subject="acme", event_type="tokens"
        )
        await charge(database, key, [1, 2, 3])
        await settled(database, named)

    assert receiver.sums() == {"acme": 6}
    assert {each["type"] for each in receiver.kept.values()} == {"tokens"}


HOOK = {"url": "https://example.org/v1/meter_events", "events": ["receipt.created"], "secret": TOKEN}
METER = {**HOOK, "format": "stripe", "eventType": "agent_credits"}


@in_shared_world
@pytest.mark.parametrize(
    ("hook", "field"),
    [
        (HOOK, "secret"),
        ({**HOOK, "secret": None, "eventType": "x"}, "eventType"),
        ({**HOOK, "secret": None, "subject": "x"}, "subject"),
        ({**METER, "events": ["receipt.created", "run.failed"]}, "events"),
        ({**METER, "eventType": None}, "eventType"),
        ({**METER, "secret": None}, "secret"),
        ({**METER, "secret": "sk_live\r\nHost: example.org"}, "secret"),
        ({**METER, "format": "xml"}, "format"),
    ],
)
async def test_what_does_not_go_with_the_format_is_named(
    tenant: httpx.AsyncClient, hook: dict[str, Any], field: str
) -> None:
    response = await tenant.post("/v1/webhooks", json=hook)

    assert (response.status_code, [each["field"] for each in response.json()["errors"]]) == (422, [field])
    assert TOKEN not in response.text


@in_shared_world
async def test_a_token_is_shown_once_and_sent_nowhere_else(tenant: httpx.AsyncClient) -> None:
    made = (await tenant.post("/v1/webhooks", json=METER)).json()
    path = f"/v1/webhooks/{made['id']}"
    elsewhere = await tenant.patch(path, json={"url": "https://example.org/mine"})
    more = await tenant.patch(path, json={"events": ["run.failed"]})
    without = await tenant.post(f"{path}/secret")
    rotated = await tenant.post(f"{path}/secret", json={"secret": "sk_live_another"})
    shown = [await tenant.get(path), await tenant.get("/v1/webhooks"), await tenant.patch(path, json={})]

    assert (made["secret"], rotated.json()["secret"]) == (TOKEN, "sk_live_another")
    refused = [elsewhere, more, without]
    assert [(each.status_code, each.json()["errors"][0]["field"]) for each in refused] == [
        (422, "url"),
        (422, "events"),
        (422, "secret"),
    ]
    texts = "".join(each.text for each in (*refused, *shown))
    assert TOKEN not in texts
    assert "sk_live_another" not in texts
    assert shown[0].json()["url"] == METER["url"]


@in_shared_world
@RECEIVERS
async def test_the_document_is_followed(world: World, kind: type[Stripe | OpenMeter]) -> None:
    (written,) = (text for chapter, text in programs("FINOPS.md", "json") if chapter == kind.__name__)
    name = f"follows-{uuid4().hex}"
    scopes = ["runs:write", "runs:read", "receipts:read"]
    key, secret = await world.services.accounts.create_key(name, scopes)
    async with a_billing_receiver(kind) as receiver, a_client(world.url, secret) as http:
        hook = json.loads(written)
        assert hook["url"].endswith(kind.path)
        here = {"url": receiver.url, "secret": TOKEN}
        (await http.post("/v1/webhooks", json={**hook, **here})).raise_for_status()
        await charge(world.services.database, key, [45_000, 45_001])
        await until(lambda: len(receiver.kept) == 2)

    subjects = {"cus_…": 90_001} if kind is Stripe else {"cus_ada": 45_000, "cus_bob": 45_001}
    assert receiver.sums() == subjects
    assert {each.get("event_name", each.get("type")) for each in receiver.kept.values()} == {
        hook["eventType"]
    }
