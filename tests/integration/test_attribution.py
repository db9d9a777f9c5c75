"""Whom and what a run was for: on its row, its receipts and the sums of usage."""

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx
import pytest_asyncio

from app.billing.chain.sums.comparison import accounts_with_sums, wrong_sums
from app.billing.prices.price_list import Charge
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.simulator.script import Reply, Text, in_turn
from app.usage.records import Attribution
from tests.batches import a_line, created, ended
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.factories import a_fact
from tests.integration.statements import execute, until
from tests.integration.test_key_labels import GRAPH, ways

SECOND = ("ann", {"team": "search", "env": "prod"})
LABELS: tuple[tuple[str | None, dict[str, str] | None], ...] = (
    *(("ann", {"team": "search"}), SECOND),
    *(("bob", {"team": "mail"}), (None, None)),
)


async def a_tenant(world: World, account: str, *scopes: Any) -> httpx.AsyncClient:
    wanted = ["runs:write", "runs:read", "receipts:read", *scopes]
    _, secret = await world.services.accounts.create_key(account, wanted)
    return a_client(world.url, secret)


async def groups(client: httpx.AsyncClient, **query: Any) -> dict[str | tuple[Any, Any] | None, int]:
    """The number of receipts by group, or by group and part."""
    report = (await client.get("/v1/usage", params=query)).raise_for_status().json()
    assert sum(item["receipts"] for item in report["items"]) == report["total"]["receipts"]
    return {
        (item["group"], item["split"]) if "split" in item else item["group"]: item["receipts"]
        for item in report["items"]
    }


async def found(client: httpx.AsyncClient, path: str, **query: Any) -> int:
    return len((await client.get(path, params=query)).raise_for_status().json()["items"])


async def has_receipts(client: httpx.AsyncClient) -> bool:
    return await found(client, "/v1/receipts", endUser="ann", tag="team:search") > 0


@pytest_asyncio.fixture
async def world(world_of: WorldOf) -> World:
    """A server on which two accounts have the same receipts."""
    world = await world_of(in_turn())
    for account in ("acme", "other"):
        key, _ = await world.services.accounts.create_key(account, ["runs:read"])
        receipts = []
        for number, (end_user, tags) in enumerate(LABELS):
            by = Attribution(key.id, "claude_agents:assistant", None, end_user, tags)
            fact = replace(a_fact(key, f"msg_{number}"), attribution=by)
            receipts.append(NewReceipt.of(fact, Charge(Decimal(1), 10, "test"), "final"))
        async with world.services.database.transaction() as tx:
            await insert_receipts(tx, receipts)
    return world


async def test_usage_is_summed_up_by_end_users_and_tags(world: World) -> None:
    async with await a_tenant(world, "acme") as client:
        assert await groups(client, groupBy="endUser") == {"ann": 2, "bob": 1, None: 1}
        assert await groups(client, groupBy="endUser", top=1) == {"ann": 2, None: 2}
        assert await groups(client, groupBy="tag:team") == {"search": 2, "mail": 1, None: 1}
        assert await groups(client, groupBy="tag:team", tag="team:search") == {"search": 2}
        by_model = await groups(client, groupBy="model", splitBy="tag:env")
        assert {part[1]: count for part, count in by_model.items() if isinstance(part, tuple)} == {
            "prod": 1,
            None: 3,
        }
        assert sum((await groups(client, groupBy="hour", endUser="ann")).values()) == 2
        now = {"from": "2020-01-01T00:00:07Z"}
        assert await groups(client, groupBy="endUser", **now) == {"ann": 2, "bob": 1, None: 1}
        for query in (
            {"groupBy": "tag:team", "endUser": "ann"},
            {"groupBy": "endUser", "splitBy": "model"},
            {"groupBy": "tag:no spaces"},
        ):
            assert (await client.get("/v1/usage", params=query)).status_code == 422, query


async def test_the_sums_of_labels_are_verified(world: World) -> None:
    database = world.services.database
    accounts = await accounts_with_sums(database)
    assert len(accounts) > 1
    for account_id in accounts:
        assert await wrong_sums(database, account_id) == []
    await execute(database, "UPDATE labelled_rollups SET receipts = receipts + 1 WHERE value = 'bob'")
    found = [each for account_id in accounts for each in await wrong_sums(database, account_id)]
    assert len(found) == 2
    assert "endUser bob: receipts is recorded as 2 and recomputed as 1" in found[0]


async def test_only_an_admin_sums_up_several_accounts(world: World) -> None:
    async with await a_tenant(world, "acme") as client:
        assert (await client.get("/v1/usage", params={"groupBy": "account"})).status_code == 403
    async with await a_tenant(world, "acme", "admin") as client:
        assert list((await groups(client, groupBy="account")).values()) == [4, 4]


async def test_receipts_are_filtered_by_labels_and_show_them(world: World) -> None:
    async with await a_tenant(world, "acme") as client:
        assert await found(client, "/v1/receipts", endUser="ann") == 2
        assert await found(client, "/v1/receipts", tag="team:mail") == 1
        assert await found(client, "/v1/receipts", endUser="ann", tag="env:prod") == 1
        assert await found(client, "/v1/receipts", endUser="cid") == 0
        export = await client.get("/v1/receipts", params={"format": "csv", "tag": "env:prod"})
    (row,) = csv.DictReader(io.StringIO(export.text))
    assert (row["endUser"], json.loads(row["tags"])) == SECOND


async def test_a_run_and_its_receipts_keep_what_its_request_says(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply((Text("hi"),))))
    labels = {"endUser": "ann", "tags": {"team": "search"}}
    body = a_request() | labels | {"graphId": GRAPH, "runId": "run-1", "metadata": {"ticket": "7"}}
    async with await a_tenant(world, "acme") as client:
        assert (await client.post("/v1/runs/wait", json=body)).raise_for_status().json()["ok"]
        shown = (await client.get("/v1/runs/run-1")).json()
        assert await found(client, "/v1/runs", endUser="ann", tag="team:search") == 1
        assert await found(client, "/v1/runs", tag="team:mail") == 0
        await until(lambda: has_receipts(client))
        (await client.delete("/v1/runs/run-1")).raise_for_status()
        emptied = (await client.get("/v1/runs/run-1")).json()
    assert {name: shown[name] for name in labels} == labels
    assert (shown["metadata"], emptied["metadata"], emptied["endUser"]) == ({"ticket": "7"}, None, "ann")


TOO_MUCH: list[dict[str, Any]] = [
    *({"endUser": ""}, {"endUser": "x" * 129}, {"endUser": "line\n"}),
    *({"tags": {f"t{number}": "v" for number in range(11)}}, {"tags": {"a b": "v"}}, {"tags": {"team": ""}}),
    *({"metadata": {"k": "x" * 513}}, {"metadata": {"k": 7}}),
]


async def test_labels_are_bounded(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    async with await a_tenant(world, "acme") as client:
        for fields in TOO_MUCH:
            assert (await client.post("/v1/runs", json=a_request(**fields))).status_code == 422, fields


async def test_every_way_in_takes_labels(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply((Text("hi"),)))
    paths = [*ways({}), "schedule", "batch"]
    names = {path: f"way-{number}" for number, path in enumerate(paths)}

    def labels(path: str) -> dict[str, Any]:
        return {"endUser": names[path], "tags": {"way": names[path]}, "metadata": {"way": names[path]}}

    async with await a_tenant(world, "acme") as client:
        for path in ways({}):
            (await client.post(path, json=ways(labels(path))[path])).raise_for_status()
        schedule = {"cron": "0 0 1 1 *", "run": a_request() | labels("schedule") | {"graphId": GRAPH}}
        location = (await client.post("/v1/schedules", json=schedule)).raise_for_status().headers["location"]
        (await client.post(f"{location}/trigger")).raise_for_status()
        await ended(client, await created(client, [a_line("1", "hi", graph=GRAPH, **labels("batch"))]))

        async def all_are_charged() -> bool:
            found = (await client.get("/v1/receipts")).raise_for_status().json()["items"]
            assert all(each["tags"] == {"way": each["endUser"]} for each in found)
            return {each["endUser"] for each in found} == set(names.values())

        await until(all_are_charged)
        assert await groups(client, groupBy="tag:way", top=10) == dict.fromkeys(names.values(), 1)
        runs = (await client.get("/v1/runs")).raise_for_status().json()["items"]
    assert {each["endUser"] for each in runs} >= set(names.values()) - {names["/v1/generate/text"]}
    for each in runs:
        assert each["metadata"] == {"way": each["endUser"]}
