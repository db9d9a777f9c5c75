"""Webhooks over HTTP."""

from typing import Any

import httpx
import pytest

from app.simulator.script import in_turn
from app.webhooks.service import MAX_WEBHOOKS
from tests.e2e.stories import World, WorldOf, until
from tests.factories import an_account
from tests.integration.conftest import in_shared_world
from tests.integration.test_http_billing import holder
from tests.integration.webhook_seam import charge
from tests.receivers import a_receiver

URL = "http://127.0.0.1:9/hook"
SCOPES = ("runs:write", "runs:read", "receipts:read")


async def lenient(world_of: WorldOf) -> World:
    """A world whose operator allows private addresses."""
    return await world_of(in_turn(), RUNTALLY_WEBHOOK_ALLOW_PRIVATE=True)


async def registered(http: httpx.AsyncClient, url: str = URL, *events: str) -> dict[str, Any]:
    """A new webhook."""
    answer = await http.post("/v1/webhooks", json={"url": url, "events": list(events or ["run.completed"])})
    assert answer.status_code == 201, answer.text
    webhook: dict[str, Any] = answer.json()
    return webhook


@in_shared_world
async def test_a_webhook_is_registered_shown_changed_and_deleted(tenant: httpx.AsyncClient) -> None:
    wanted = {"url": URL, "events": ["run.failed", "run.completed"], "description": "mine"}

    made = await tenant.post("/v1/webhooks", json=wanted)
    webhook = made.json()
    secret = webhook.pop("secret")
    path = made.headers["location"]
    listed = (await tenant.get("/v1/webhooks")).json()
    changed = await tenant.patch(path, json={"events": ["receipt.created"], "description": None})
    same = await tenant.patch(path, json={})
    rotated = await tenant.post(f"{path}/secret")
    deleted = await tenant.delete(path)
    gone = [await tenant.get(path), await tenant.delete(path), await tenant.patch(path, json={})]

    assert (made.status_code, path) == (201, f"/v1/webhooks/{webhook['id']}")
    assert secret.startswith("whsec_")
    assert {name: webhook[name] for name in webhook if name not in {"id", "createdAt"}} == {
        "url": URL,
        "events": ["run.completed", "run.failed"],
        "description": "mine",
        "format": "runtally",
        "eventType": None,
        "subject": None,
        "enabled": True,
        "disabledReason": None,
        "disabledAt": None,
    }
    assert listed == {"items": [webhook], "nextCursor": None}
    assert changed.json() == {**webhook, "events": ["receipt.created"], "description": None}
    assert same.json() == changed.json()
    assert rotated.json()["secret"] not in {secret, None}
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert [(answer.status_code, answer.json()["code"]) for answer in gone] == [
        (404, "webhook_not_found")
    ] * 3


@in_shared_world
async def test_a_webhook_can_be_disabled_and_enabled(tenant: httpx.AsyncClient) -> None:
    path = f"/v1/webhooks/{(await registered(tenant))['id']}"

    disabled = (await tenant.patch(path, json={"enabled": False})).json()
    again = (await tenant.patch(path, json={"enabled": False})).json()
    replays = [
        await tenant.post(f"{path}/replay", json={"from": "2026-01-01T00:00:00Z"}),
        await tenant.post(f"{path}/deliveries/msg_{'0' * 32}/replay"),
    ]
    awake = (await tenant.patch(path, json={"enabled": True})).json()

    assert (disabled["enabled"], disabled["disabledReason"]) == (False, "by_request")
    assert again == disabled
    assert [(each.status_code, each.json()["code"]) for each in replays] == [(409, "webhook_disabled")] * 2
    assert (awake["enabled"], awake["disabledReason"], awake["disabledAt"]) == (True, None, None)


MADE = {"url": URL, "events": ["run.completed"]}


@in_shared_world
@pytest.mark.parametrize(
    ("operation", "body", "field"),
    [
        ("create", {}, "url"),
        ("create", {"url": URL}, "events"),
        ("create", {**MADE, "events": ["run.started"]}, "events.0"),
        ("create", {**MADE, "events": ["run.failed", "run.failed"]}, "events"),
        ("create", {**MADE, "secret": "whsec_x"}, "secret"),
        ("create", {**MADE, "description": "x" * 201}, "description"),
        ("create", {**MADE, "url": "ftp://hooks.example/"}, "url"),
        ("create", {**MADE, "url": "http://169.254.169.254/latest"}, "url"),
        ("change", {"url": "http://u:p@127.0.0.1/"}, "url"),
        ("change", {"url": None}, "url"),
        ("change", {"enabled": None}, "enabled"),
        ("change", {"events": []}, "events"),
        ("replay", {}, "from"),
        ("replay", {"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "to"),
    ],
)
async def test_an_invalid_body_names_the_field(
    tenant: httpx.AsyncClient, operation: str, body: dict[str, Any], field: str
) -> None:
    webhook = await registered(tenant)
    path = f"/v1/webhooks/{webhook.pop('id')}"
    requests = {
        "create": ("POST", "/v1/webhooks"),
        "change": ("PATCH", path),
        "replay": ("POST", f"{path}/replay"),
    }

    answer = await tenant.request(*requests[operation], json=body)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]][:1] == [field]
    (kept,) = (await tenant.get("/v1/webhooks")).json()["items"]
    assert kept["url"] == URL


async def test_webhooks_for_events_need_the_scopes_that_show_them(world_of: WorldOf) -> None:
    world = await lenient(world_of)
    money = {"url": URL, "events": ["run.completed", "receipt.created"]}

    async with holder(world, "acme", *SCOPES) as owner:
        path = f"/v1/webhooks/{(await registered(owner, URL, 'receipt.created'))['id']}"
    async with holder(world, "acme", "runs:write", "runs:read") as writer:
        plain = f"/v1/webhooks/{(await registered(writer))['id']}"
        refused = [
            await writer.post("/v1/webhooks", json=money),
            await writer.post("/v1/webhooks", json={**money, "events": ["budget.threshold"]}),
            await writer.patch(plain, json={"events": ["budget.threshold"]}),
            # What it may not read it may not have sent elsewhere either.
            await writer.patch(path, json={"url": "http://127.0.0.1:9/mine"}),
        ]
        allowed = [
            await writer.patch(path, json={"enabled": False}),
            await writer.patch(path, json={"events": ["run.completed"], "enabled": True}),
        ]

    assert [each.status_code for each in allowed] == [200, 200]
    assert [(each.status_code, each.json()["code"]) for each in refused] == [(403, "forbidden")] * 4


@in_shared_world
async def test_the_number_of_webhooks_is_limited(tenant: httpx.AsyncClient) -> None:
    for _ in range(MAX_WEBHOOKS):
        last = await registered(tenant)

    refused = await tenant.post("/v1/webhooks", json={"url": URL, "events": ["run.completed"]})
    await tenant.delete(f"/v1/webhooks/{last['id']}")
    await registered(tenant)

    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_webhooks")
    assert len((await tenant.get("/v1/webhooks")).json()["items"]) == MAX_WEBHOOKS


async def test_deliveries_are_listed_in_pages_and_replayed(world_of: WorldOf) -> None:
    world = await lenient(world_of)
    key = await an_account(world.services.database)
    async with a_receiver() as receiver, holder(world, "acme", *SCOPES) as acme:
        path = f"/v1/webhooks/{(await registered(acme, receiver.url, 'receipt.created'))['id']}"
        await charge(world.services.database, key, "msg_1", "msg_2", "msg_3")
        await until(lambda: len(receiver.posts) == 3)
        first = (await acme.get(f"{path}/deliveries", params={"limit": 2})).json()
        rest = (await acme.get(f"{path}/deliveries", params={"cursor": first["nextCursor"]})).json()
        items = first["items"] + rest["items"]
        replayed = await acme.post(f"{path}/deliveries/{items[0]['id']}/replay")
        window = await acme.post(f"{path}/replay", json={"from": "2026-01-01T00:00:00Z"})
        unknown = await acme.post(f"{path}/deliveries/msg_{'0' * 32}/replay")
        nonsense = await acme.post(f"{path}/deliveries/nonsense/replay")
        wrong = await acme.get(f"{path}/deliveries", params={"cursor": "x"})
        await until(lambda: len(receiver.posts) == 4)

    assert [len(page["items"]) for page in (first, rest)] == [2, 1]
    assert rest["nextCursor"] is None
    assert {item["id"] for item in items} == set(receiver.ids)
    assert {item["event"] for item in items} == {"receipt.created"}
    assert (replayed.status_code, replayed.json()["status"]) == (202, "pending")
    assert receiver.ids[3] == items[0]["id"]
    assert (window.status_code, window.json()) == (202, {"replayed": 0})
    for answer in (unknown, nonsense):
        assert (answer.status_code, answer.json()["code"]) == (404, "delivery_not_found")
    assert wrong.status_code == 422


@in_shared_world
async def test_a_secret_is_shown_only_when_it_is_created(tenant: httpx.AsyncClient) -> None:
    webhook = await registered(tenant)
    path = f"/v1/webhooks/{webhook['id']}"

    answers = [
        await tenant.get(path),
        await tenant.get("/v1/webhooks"),
        await tenant.patch(path, json={"description": "x"}),
        await tenant.get(f"{path}/deliveries"),
    ]

    assert all("whsec_" not in answer.text and "secret" not in answer.text for answer in answers)
