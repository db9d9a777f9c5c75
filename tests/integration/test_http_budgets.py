"""Budgets over HTTP: who may set which, and what is refused."""

from typing import Any

import httpx

from app.simulator.script import in_turn
from tests.e2e.stories import World, WorldOf

A_BUDGET: dict[str, Any] = {"scope": "account", "window": "month", "usd": "5", "mode": "hard"}


async def client_of(world: World, account: str, *scopes: Any) -> httpx.AsyncClient:
    _, secret = await world.services.accounts.create_key(account, list(scopes))
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx.AsyncClient(base_url=world.http.base_url, headers=headers, timeout=30)


async def test_accounts_set_budgets_of_their_own_and_operators_those_of_all(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    tenant = ("budgets:write", "receipts:read")
    async with (
        await client_of(world, "acme", *tenant) as acme,
        await client_of(world, "globex", *tenant) as globex,
        await client_of(world, "ops", "admin", "receipts:read") as ops,
        await client_of(world, "acme", "receipts:read", "runs:write") as reader,
    ):
        own = await acme.put("/v1/budgets/own", json=A_BUDGET)
        cap = await ops.put("/v1/budgets/cap", params={"account": "acme"}, json={**A_BUDGET, "usd": "9"})
        refused = [
            await acme.put("/v1/budgets/cap", json={**A_BUDGET, "usd": "900"}),
            await acme.delete("/v1/budgets/cap"),
            await reader.put("/v1/budgets/own", json=A_BUDGET),
            await globex.put("/v1/budgets/own", params={"account": "acme"}, json=A_BUDGET),
            await globex.get("/v1/budgets", params={"account": "acme"}),
            await globex.get("/v1/budgets/own"),
            await globex.delete("/v1/budgets/own"),
        ]
        seen = [
            [budget["id"] for budget in (await each.get("/v1/budgets")).json()["items"]]
            for each in (acme, globex, reader)
        ]
        deleted = await ops.delete("/v1/budgets/cap", params={"account": "acme"})
        audited = (await ops.get("/v1/audit", params={"account": "acme"})).json()["items"]

    assert (own.status_code, own.json()["byOperator"], own.json()["remainingUsd"]) == (
        200,
        False,
        "5.0000000000",
    )
    assert (cap.json()["byOperator"], cap.json()["usd"]) == (True, "9.0000000000")
    assert [(each.status_code, each.json()["code"]) for each in refused] == [
        (403, "budget_of_operator"),
        (403, "budget_of_operator"),
        (403, "forbidden"),
        (404, "account_not_found"),
        (404, "account_not_found"),
        (404, "budget_not_found"),
        (404, "budget_not_found"),
    ]
    assert seen == [["cap", "own"], [], ["cap", "own"]]
    assert deleted.status_code == 204
    actions = [(each["action"], each["target"]) for each in audited if each["action"].startswith("budget")]
    assert actions == [("budget.deleted", "cap"), ("budget.set", "cap"), ("budget.set", "own")]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"scope": "planet"}, "scope"),
    ({"window": "week"}, "window"),
    ({"mode": None}, "mode"),
    ({"usd": "-1"}, "usd"),
    ({"usd": 1.5}, "usd"),
    ({"usd": "0.00000001"}, "usd"),
    ({"usd": None}, "usd"),
    ({"tokens": 5}, "body"),
    ({"usd": ..., "tokens": -1}, "tokens"),
    ({"usd": ..., "tokens": True}, "tokens"),
    ({"usd": ..., "tokens": 10**16}, "tokens"),
    ({"usd": ...}, "body"),
    ({"timeZone": "localtime"}, "timeZone"),
    ({"timeZone": "'; DROP TABLE budgets; --"}, "timeZone"),
    ({"match": "x"}, "match"),
    ({"scope": "key", "match": "not-a-key"}, "match"),
    ({"scope": "tag", "match": "team"}, "match"),
    ({"scope": "endUser", "match": "a\x00b"}, "match"),
    ({"scope": "endUser", "match": "a" * 129}, "match"),
    ({"account": "globex"}, "account"),
]


async def test_a_budget_that_says_nothing_sensible_names_the_field(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    for change, field in WRONG:
        body = {name: value for name, value in {**A_BUDGET, **change}.items() if value is not ...}
        response = await world.http.put("/v1/budgets/b", json=body)

        assert response.status_code == 422, change
        assert [error["field"] for error in response.json()["errors"]] == [field]
    assert (await world.http.get("/v1/budgets")).json()["items"] == []


async def test_an_id_is_no_path(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    for name in ("..%2Fkeys", "a%20b", "a" * 101, "%00"):
        response = await world.http.put(f"/v1/budgets/{name}", json=A_BUDGET)
        assert response.status_code in {404, 422}, name
