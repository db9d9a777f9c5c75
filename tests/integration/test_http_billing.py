"""Usage, balance and accounts over HTTP."""

import csv
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.platform.pagination import MAX_PAGE
from app.simulator.script import in_turn
from app.usage.records import TokenUsage
from tests.e2e.stories import ASSISTANT, World, WorldOf, a_client, a_request
from tests.factories import a_fact, an_account, scripted
from tests.integration.conftest import in_shared_world
from tests.scripted import WriteMessage

SONNET = "claude-sonnet-4-6"


@asynccontextmanager
async def holder(world: World, account: str, *scopes: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key of these scopes."""
    _, key = await world.services.accounts.create_key(account, scopes)
    async with a_client(world.url, key) as client:
        yield client


async def charged_world(world_of: WorldOf) -> World:
    """A world in which two runs were charged."""
    usage = TokenUsage(input_tokens=1000, output_tokens=100)
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi", usage)))
    for model in (SONNET, "claude-opus-4-5"):
        assert (await world.http.post("/v1/runs/wait", json=a_request(model=model))).json()["ok"]
    return world


async def test_usage_is_summed_by_group(world_of: WorldOf) -> None:
    world = await charged_world(world_of)

    by_model = (await world.http.get("/v1/usage", params={"groupBy": "model"})).json()
    by_graph = (await world.http.get("/v1/usage", params={"groupBy": "graph"})).json()
    total = (await world.http.get("/v1/usage")).json()

    assert {item["group"]: item["costUsd"] for item in by_model["items"]} == {
        SONNET: "0.0045000000",
        "claude-opus-4-5": "0.0075000000",
    }
    assert [item["group"] for item in by_graph["items"]] == [ASSISTANT]
    assert total["items"] == []
    assert total["total"] == by_model["total"] == by_graph["total"]
    assert total["total"] == {
        "receipts": 2,
        "inputTokens": 2000,
        "outputTokens": 200,
        "cacheReadTokens": 0,
        "cacheWrite5mTokens": 0,
        "cacheWrite1hTokens": 0,
        "costUsd": "0.0120000000",
        "chargedCredits": 120_000,
        "cacheSavingsUsd": "0.0000000000",
        "cacheMissUsd": "0.0000000000",
        "webSearchRequests": 0,
        "webFetchRequests": 0,
    }
    assert (total["groupBy"], total["timeZone"], total["nextCursor"]) == (None, "UTC", None)


async def test_the_balance_follows_the_charges(world_of: WorldOf) -> None:
    world = await charged_world(world_of)
    await world.services.ledger.grant(await world.account_id(), 1_000_000)

    balance = (await world.http.get("/v1/balance")).json()

    assert balance == {
        "mode": "postpaid",
        "granted": 1_000_000,
        "adjusted": 0,
        "spent": 120_000,
        "reserved": 0,
        "left": 880_000,
        "available": None,
        "monthSpent": 120_000,
        "grantedUsd": "0.1000000000",
        "spentUsd": "0.0120000000",
        "leftUsd": "0.0880000000",
        "topUp": None,
    }


async def test_a_run_shows_its_charges(world_of: WorldOf) -> None:
    world = await charged_world(world_of)

    (newest, _) = (await world.http.get("/v1/runs")).json()["items"]

    assert newest["billing"] == {
        "receipts": 1,
        "costUsd": "0.0075000000",
        "webSearchRequests": 0,
        "webFetchRequests": 0,
        "meters": {"sdk": 1, "gateway": 1},
        "drift": 0,
        "costComparison": None,
    }


async def test_the_export_spans_many_pages(world_of: WorldOf) -> None:
    world = await charged_world(world_of)
    key = await an_account(world.services.database)
    facts = [a_fact(key, f"msg_{number}") for number in range(2 * MAX_PAGE + 1)]
    charge = PriceList().charge(BilledUsage.of(facts[0]), at=datetime.now(UTC))
    async with world.services.database.transaction() as tx:
        await insert_receipts(tx, [NewReceipt.of(fact, charge, "final") for fact in facts])

    async with (
        holder(world, "acme", "receipts:read") as tenant,
        tenant.stream("GET", "/v1/receipts", headers={"Accept": "text/csv"}) as response,
    ):
        chunks = [chunk async for chunk in response.aiter_raw()]

    # Sent as it is read: nobody knew at the beginning how long it would be.
    assert "content-length" not in response.headers
    rows = list(csv.DictReader(io.StringIO(b"".join(chunks).decode())))
    assert sorted(row["usageUnitId"] for row in rows) == sorted(fact.message_id for fact in facts)


@in_shared_world
async def test_operators_grant_and_adjust_once(world: World) -> None:
    await world.services.accounts.create_key("granted", ["runs:read"])
    once = {"Idempotency-Key": "invoice-7"}

    first = await world.http.post("/v1/accounts/granted/grants", json={"usd": "5.00"}, headers=once)
    again = await world.http.post("/v1/accounts/granted/grants", json={"credits": 50_000_000}, headers=once)
    other = await world.http.post("/v1/accounts/granted/grants", json={"usd": "6.00"}, headers=once)
    adjusted = await world.http.post(
        "/v1/accounts/granted/adjustments", json={"usd": "-1.5", "note": "a goodwill gone wrong"}
    )

    assert (first.status_code, first.json()["granted"]) == (201, 50_000_000)
    assert (again.status_code, again.json()["granted"]) == (201, 50_000_000)
    assert (other.status_code, other.json()["code"]) == (409, "reference_taken")
    assert (adjusted.json()["adjusted"], adjusted.json()["leftUsd"]) == (-15_000_000, "3.5000000000")
    shown = (await world.http.get("/v1/accounts/granted")).json()
    assert (shown["account"], shown["left"]) == ("granted", 35_000_000)


@in_shared_world
async def test_operators_set_terms(world: World) -> None:
    await world.services.accounts.create_key("terms", ["runs:read"])

    prepaid = await world.http.patch("/v1/accounts/terms", json={"mode": "prepaid"})
    kept = await world.http.patch("/v1/accounts/terms", json={})
    postpaid = await world.http.patch("/v1/accounts/terms", json={"mode": "postpaid"})

    assert (prepaid.json()["mode"], prepaid.json()["available"]) == ("prepaid", 0)
    assert (kept.json()["mode"], kept.json()["available"]) == ("prepaid", 0)
    assert (postpaid.json()["mode"], postpaid.json()["available"]) == ("postpaid", None)


async def test_accounts_are_listed_in_pages(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    for name in ("one", "two", "three"):
        await world.services.accounts.create_key(name, ["runs:read"])

    first = (await world.http.get("/v1/accounts", params={"limit": 3})).json()
    rest = (await world.http.get("/v1/accounts", params={"cursor": first["nextCursor"]})).json()

    assert [account["name"] for account in first["items"]] == ["three", "two", "one"]
    assert [account["name"] for account in rest["items"]] == ["default"]
    assert rest["nextCursor"] is None


@in_shared_world
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("grants", {}, "body"),
        ("grants", {"usd": "1", "credits": 1}, "body"),
        ("grants", {"usd": "0.00000001"}, "usd"),
        ("grants", {"usd": "-1"}, "usd"),
        ("grants", {"usd": "0"}, "usd"),
        ("grants", {"usd": "10000000000"}, "usd"),
        ("grants", {"credits": 10**17 + 1}, "credits"),
        ("grants", {"credits": 0}, "credits"),
        ("adjustments", {"usd": "-1"}, "note"),
        ("adjustments", {"credits": -(10**17) - 1, "note": "x"}, "credits"),
        ("adjustments", {"usd": -(10**10), "note": "x"}, "usd"),
        ("adjustments", {"usd": "0", "note": "x"}, "usd"),
    ],
)
async def test_an_invalid_amount_names_the_field(
    world: World, path: str, body: dict[str, Any], field: str
) -> None:
    response = await world.http.post(f"/v1/accounts/default/{path}", json=body)

    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]
    assert (await world.http.get("/v1/balance")).json()["left"] == 0


@in_shared_world
async def test_invalid_terms_are_rejected(world: World) -> None:
    for body, field in (
        ({"mode": "barter"}, "mode"),
        ({"mode": None}, "mode"),
        ({"budget": "1"}, "budget"),
    ):
        response = await world.http.patch("/v1/accounts/default", json=body)
        assert response.status_code == 422
        assert [error["field"] for error in response.json()["errors"]] == [field]
