"""Spend limits of the provider's Admin API, by its own client: they are budgets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from app.simulator.script import Reply, Text
from tests.e2e.stories import World, WorldOf, a_client
from tests.e2e.test_an_end_user_is_erased import erased
from tests.integration.external_calls import HELLO, MESSAGES, call, error_of, new_key

LIMITS = "/anthropic/v1/organizations/spend_limits"
ORGANIZATION: Any = {"type": "organization"}
ANNA: Any = {"type": "user", "user_id": "anna@acme.example"}
TENANT = ("budgets:write", "receipts:read", "external:write")


@asynccontextmanager
async def limits_of(world: World, key: str) -> AsyncIterator[Any]:
    """The part of the client that a person who administers limits uses."""
    async with AsyncAnthropic(base_url=f"{world.url}/anthropic", api_key=key, max_retries=0) as client:
        yield client.beta.organization.spend_limits


@pytest.fixture
async def world(world_of: WorldOf) -> World:
    return await world_of(lambda _: Reply([Text("ok")]))


async def test_the_client_sets_replaces_lists_and_deletes_them(world: World) -> None:
    async with limits_of(world, await new_key(world, "acme", TENANT)) as limits:
        first = await limits.set(scope=ORGANIZATION, amount="50000")
        again = await limits.set(scope=ORGANIZATION, amount="60000", period="monthly")
        anna = await limits.set(scope=ANNA, amount="250", period="daily")
        pages = [each.id async for each in await limits.list(limit=1)]
        users = [each.id async for each in await limits.list(scope_type=["user"])]
        effective = [each async for each in await limits.effective.list(user_ids=["anna@acme.example"])]
        none = [each async for each in await limits.effective.list(period=["monthly"])]
        read = await limits.retrieve(anna.id)
        deleted = await limits.delete(first.id)
        left = [each.id async for each in await limits.list()]

    assert (first.amount, again.amount, again.id) == ("50000", "60000", first.id)
    assert first.created_at == again.created_at <= first.updated_at < again.updated_at
    assert sorted(pages) == sorted([first.id, anna.id])
    assert users == left == [anna.id]
    assert "anna" not in anna.id
    assert (read.scope.user_id, read.period, read.amount, read.currency) == (
        *("anna@acme.example", "daily", "250", "USD"),
    )
    (row,) = effective
    assert (row.actor.user_id, row.amount, row.period_to_date_spend) == ("anna@acme.example", "250", "0")
    assert (row.spend_limit_id, none) == (anna.id, [])
    assert (deleted.type, deleted.id) == ("spend_limit_deleted", first.id)


async def test_they_are_the_budgets_that_refuse_calls(world: World) -> None:
    key = await new_key(world, "acme", (*TENANT, "runs:read"))
    async with limits_of(world, key) as limits, a_client(world.url, key) as http:
        await limits.set(scope=ANNA, amount="0")
        hers = await call(http, metadata={"user_id": "anna@acme.example"})
        others = await call(http, metadata={"user_id": "bob@acme.example"})
        (budget,) = (await http.get("/v1/budgets")).json()["items"]

    assert (hers.status_code, hers.headers["x-should-retry"], others.status_code) == (402, "false", 200)
    assert (budget["scope"], budget["match"], budget["window"]) == ("endUser", "anna@acme.example", "month")
    assert (budget["usd"], budget["mode"], budget["byOperator"]) == ("0.0000000000", "hard", False)


async def test_what_a_spend_limit_cannot_express_is_not_among_them(world: World) -> None:
    key = await new_key(world, "acme", TENANT)
    like = {"scope": "account", "window": "day", "usd": "5.01", "mode": "hard"}
    hidden: dict[str, dict[str, Any]] = {
        "hourly": {**like, "window": "hour"},
        "soft": {**like, "mode": "soft"},
        "berlin": {**like, "timeZone": "Europe/Berlin"},
        "fraction": {**like, "usd": "5.015"},
        "each": {**like, "scope": "endUser"},
        "graph": {**like, "scope": "graph", "match": "claude_agents:assistant"},
        "tokens": {"scope": "account", "window": "day", "tokens": 5, "mode": "hard"},
    }
    async with limits_of(world, key) as limits, a_client(world.url, key) as http:
        for name, budget in {**hidden, "shown": like}.items():
            (await http.put(f"/v1/budgets/{name}", json=budget)).raise_for_status()
        shown = [(each.id, each.amount, each.period) async for each in await limits.list()]
        unknown = [await http.get(f"{LIMITS}/soft"), await http.delete(f"{LIMITS}/soft")]
        replaced = await limits.set(scope=ORGANIZATION, amount="7", period="daily")
        kept = {each["id"] for each in (await http.get("/v1/budgets")).json()["items"]}

    assert shown == [("shown", "501", "daily")]
    assert [error_of(each)[:2] for each in unknown] == [(404, "not_found_error")] * 2
    assert replaced.id == "shown"
    assert kept == {*hidden, "shown"}


INEXPRESSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"scope": ORGANIZATION, "amount": "1", "period": "weekly"}, "period"),
    ({"scope": {"type": "workspace", "workspace_id": "w"}, "amount": "1"}, "scope"),
    ({"scope": {"type": "user"}, "amount": "1"}, "scope.user_id"),
    ({"scope": ORGANIZATION, "amount": None}, "amount"),
    ({"scope": ORGANIZATION, "amount": "-1"}, "amount"),
    ({"scope": ORGANIZATION, "amount": "1.5"}, "amount"),
    ({"scope": ORGANIZATION}, "amount"),
]


async def test_what_budgets_cannot_express_is_refused(world: World) -> None:
    async with a_client(world.url, await new_key(world, "acme", TENANT)) as http:
        refused = [error_of(await http.post(LIMITS, json=body)) for body, _ in INEXPRESSIBLE]
        page = error_of(await http.get(LIMITS, params={"page": "x"}))

    for error, (_, field) in zip(refused, INEXPRESSIBLE, strict=True):
        assert error[:2] == (400, "invalid_request_error")
        assert error[2].startswith(f"{field}: ")
    assert page == (400, "invalid_request_error", "page: is not a page of this list")


async def test_what_operators_have_set_tenants_see_and_leave(world: World) -> None:
    cap = {"scope": "account", "window": "month", "usd": "9", "mode": "hard"}
    key = await new_key(world, "acme", TENANT)
    (await world.http.put("/v1/budgets/cap", params={"account": "acme"}, json=cap)).raise_for_status()
    async with limits_of(world, key) as limits:
        seen = [each.id async for each in await limits.list()]
        with pytest.raises(anthropic.PermissionDeniedError):
            await limits.set(scope=ORGANIZATION, amount="1000000")
        with pytest.raises(anthropic.PermissionDeniedError):
            await limits.delete("cap")

    assert seen == ["cap"]


async def test_the_limit_of_a_person_who_was_erased_has_their_pseudonym(world: World) -> None:
    key = await new_key(world, "acme", (*TENANT, "runs:read", "runs:write"))
    async with limits_of(world, key) as limits, a_client(world.url, key) as http:
        anna = await limits.set(scope=ANNA, amount="250")
        await erased(replace(world, http=http), "anna@acme.example")
        (listed,) = [each async for each in await limits.list()]
        (effective,) = [each async for each in await limits.effective.list()]

    assert listed.id == effective.spend_limit_id == anna.id
    assert "anna" not in listed.scope.user_id == effective.actor.user_id


async def test_the_client_is_told_whether_to_try_again(world: World) -> None:
    async with a_client(world.url, await new_key(world, "acme", TENANT, requests_per_minute=1)) as http:
        answers = [await http.post(MESSAGES, json=HELLO) for _ in range(2)]
        wrong = await http.post(MESSAGES, json=HELLO, headers={"Authorization": "Bearer rt_" + "x" * 43})

    assert [(each.status_code, each.headers.get("x-should-retry")) for each in (*answers, wrong)] == [
        *((200, None), (429, "true"), (401, "false"))
    ]
