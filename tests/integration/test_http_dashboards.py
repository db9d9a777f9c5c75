"""Filtered receipts, alarms and key names over HTTP."""

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import httpx
import pytest_asyncio
from pydantic import TypeAdapter

from app.auth.records import KeyRecord
from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_list import Charge, PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.billing.receipts.repricing import reprice
from app.platform.pagination import Cursor
from app.simulator.script import ApiRequest, Reply, Text
from app.usage.records import CacheMiss, CostComparison, TokenUsage
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.factories import a_fact
from tests.integration.conftest import in_shared_world
from tests.integration.statements import execute

pytestmark = in_shared_world

NOW = datetime.now(UTC)
SONNET, UNPRICED = "claude-sonnet-4-6", "claude-unheard-of-9"


def answer(request: ApiRequest) -> Reply:
    """Of a model without a price, where it was asked for."""
    return Reply([Text("hi")], model=UNPRICED if "unheard" in request.last_text else None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(shared_world_of: WorldOf) -> World:
    return await shared_world_of(answer)


async def a_tenant(world: World, account: str, name: str | None = None) -> tuple[KeyRecord, str]:
    return await world.services.accounts.create_key(
        account, ["runs:write", "runs:read", "receipts:read"], name=name
    )


async def charge(world: World, *receipts: NewReceipt) -> None:
    async with world.services.database.transaction() as tx:
        await insert_receipts(tx, receipts)


def receipt(key: KeyRecord, message: str, basis: Any = "final", **fields: Any) -> NewReceipt:
    fact = a_fact(key, message, **fields)
    return NewReceipt.of(fact, PriceList().charge(BilledUsage.of(fact), at=NOW), basis)


async def messages(client: httpx.AsyncClient, **wanted: Any) -> list[str]:
    page = (await client.get("/v1/receipts", params=wanted)).raise_for_status().json()
    return sorted(item["usageUnitId"] for item in page["items"])


async def test_receipts_are_found_by_key_basis_and_origin(world: World) -> None:
    key, secret = await a_tenant(world, "found")
    second, _ = await a_tenant(world, "found")
    await charge(
        world,
        receipt(key, "msg_usual"),
        receipt(key, "msg_cut", "partial"),
        receipt(key, "msg_hidden", origin="hidden"),
        receipt(second, "msg_second", "partial", origin="hidden", model="claude-opus-4-5"),
    )

    async with a_client(world.url, secret) as client:
        assert await messages(client, apiKeyId=key.id) == ["msg_cut", "msg_hidden", "msg_usual"]
        assert await messages(client, apiKeyId=second.id) == ["msg_second"]
        assert await messages(client, basis="partial") == ["msg_cut", "msg_second"]
        assert await messages(client, basis="final", origin="assistant") == ["msg_usual"]
        assert await messages(client, origin="hidden", model="claude-opus-4-5") == ["msg_second"]
        assert await messages(client, basis="recovered") == []
        assert await messages(client, basis="partial", to="2020-01-01T00:00:00Z", model=SONNET) == []
        first = (await client.get("/v1/receipts", params={"apiKeyId": str(key.id), "limit": 2})).json()
        rest = {"apiKeyId": str(key.id), "limit": 2, "cursor": first["nextCursor"]}
        last = (await client.get("/v1/receipts", params=rest)).json()
        end_of_time = Cursor(datetime.max.replace(tzinfo=UTC), str(UUID(int=0))).encode()
        assert len(await messages(client, apiKeyId=key.id, cursor=end_of_time)) == 3
    assert len({item["id"] for item in (*first["items"], *last["items"])}) == 3
    assert last["nextCursor"] is None


async def test_the_export_takes_the_same_filters_and_needs_no_header(world: World) -> None:
    key, secret = await a_tenant(world, "export")
    await charge(world, receipt(key, "msg_1"), receipt(key, "msg_2", "partial"))

    async with a_client(world.url, secret) as client:
        plain = {"Accept": "text/html"}
        export = await client.get("/v1/receipts", params={"format": "csv", "basis": "partial"}, headers=plain)
        json = await client.get("/v1/receipts", params={"format": "json"}, headers={"Accept": "text/csv"})

    assert export.headers["content-type"].startswith("text/csv")
    assert "attachment" in export.headers["content-disposition"]
    assert [row["usageUnitId"] for row in csv.DictReader(io.StringIO(export.text))] == ["msg_2"]
    assert len(json.json()["items"]) == 2


async def test_usage_is_split_by_a_second_group(world: World) -> None:
    key, secret = await a_tenant(world, "split")
    models = ("claude-opus-4-5", SONNET, "claude-haiku-4-5")
    await charge(
        world,
        *(
            NewReceipt.of(a_fact(key, f"msg_{n}", model=model), Charge(Decimal(n), n, "test"), "final")
            for n, model in enumerate(models, start=1)
        ),
    )

    async with a_client(world.url, secret) as client:
        query: dict[str, Any] = {"groupBy": "graph", "splitBy": "model", "top": 2}
        report = (await client.get("/v1/usage", params=query)).json()
        alone = (await client.get("/v1/usage", params={"model": SONNET})).json()

    assert (report["groupBy"], report["splitBy"]) == ("graph", "model")
    assert [(item["split"], item["chargedCredits"]) for item in report["items"]] == [
        ("claude-haiku-4-5", 3),
        (SONNET, 2),
        (None, 1),
    ]
    assert report["total"]["chargedCredits"] == 6
    assert alone["total"]["chargedCredits"] == 2


def a_miss(
    key: KeyRecord, message: str, missed: int, cause: Any, part: str | None = None, **fields: Any
) -> NewReceipt:
    """Of as many tokens, which were read as plain input."""
    miss = CacheMiss(cause, part, expected_tokens=missed + 50, read_tokens=50, idle_s=9)
    return receipt(
        key, message, usage=TokenUsage(input_tokens=missed, cache_read_tokens=50), cache_miss=miss, **fields
    )


async def test_misses_of_the_cache_are_summed_by_cause(world: World) -> None:
    key, secret = await a_tenant(world, "misses")
    other, _ = await a_tenant(world, "other")
    await charge(
        world,
        receipt(key, "msg_usual"),
        a_miss(key, "msg_system", 2000, "changed", "system[2]"),
        a_miss(key, "msg_later", 1000, "changed", "system[0]", model=SONNET),
        a_miss(key, "msg_tools", 1000, "changed", "tools[0]"),
        a_miss(key, "msg_expired", 3000, "expired"),
        a_miss(other, "msg_of_another", 9000, "changed", "system[2]"),
    )
    unheard = a_miss(key, "msg_unheard", 4000, "model", model=UNPRICED, basis="unpriced")
    await charge(world, unheard)
    rate = Rate(Decimal(3))
    price = OperatorPrice(unheard.model, NOW, ModelPrice("file", rate, rate, Rate(Decimal(1)), rate, rate))
    await reprice(world.services.database, PriceList([price]))

    async with a_client(world.url, secret) as client:
        misses = (await client.get("/v1/usage/cache-misses")).json()["items"]
        dearest = (await client.get("/v1/usage/cache-misses", params={"top": 1})).json()["items"]
        early = {"to": "2020-01-01T00:00:00Z", "model": SONNET}
        none = (await client.get("/v1/usage/cache-misses", params=early)).json()
        total = (await client.get("/v1/usage")).json()["total"]
        changed = await messages(client, cacheMiss="changed")
        expired = await messages(client, cacheMiss="expired", model=SONNET)

    names = ("model", "cause", "part", "receipts", "missedTokens", "costUsd")
    assert [tuple(each[name] for name in names) for each in misses] == [
        # A million tokens: $3 instead of $0.30; by the later price instead of $1.
        (SONNET, "changed", "system", 2, 3000, "0.0081000000"),
        (SONNET, "expired", None, 1, 3000, "0.0081000000"),
        (unheard.model, "model", None, 1, 4000, "0.0080000000"),
        (SONNET, "changed", "tools", 1, 1000, "0.0027000000"),
    ]
    assert {each["graphId"] for each in misses} == {"claude_agents:assistant"}
    assert dearest == misses[:1]
    assert none["items"] == []
    assert sum(Decimal(each["costUsd"]) for each in misses) == Decimal(total["cacheMissUsd"])
    assert changed == ["msg_later", "msg_system", "msg_tools"]
    assert expired == ["msg_expired"]


def a_run(prompt: str = "hi") -> dict[str, Any]:
    return a_request(prompt, graphId="messages:assistant")


async def test_alarms_count_what_is_open(own: World) -> None:
    quiet = (await own.http.get("/v1/alarms")).json()
    unpriced = await own.start(a_run("unheard of"))
    await own.ended(unpriced)
    drifted = await own.start(a_run())
    await own.ended(drifted)
    await disagree(own, drifted, {"sdk": 2, "gateway": 1, "drift": 3})

    alarms = (await own.http.get("/v1/alarms")).json()
    before = (await own.http.get("/v1/alarms", params={"to": "2020-01-01T00:00:00Z"})).json()
    rate = Rate(Decimal(1))
    price = ModelPrice("file", rate, rate, rate, rate, rate)
    await reprice(own.services.database, PriceList([OperatorPrice(UNPRICED, NOW, price)]))
    later = (await own.http.get("/v1/alarms")).json()

    nothing = {
        "drift": {"runs": 0, "messages": 0, "costUsd": "0.0000000000", "newest": []},
        "unpriced": {"receipts": 0, "runs": 0, "newest": []},
    }
    assert quiet == before == nothing
    assert (alarms["drift"]["runs"], alarms["drift"]["messages"]) == (1, 3)
    (run,) = alarms["drift"]["newest"]
    assert (run["runId"], run["meters"], run["drift"]) == (drifted, {"sdk": 2, "gateway": 1}, 3)
    assert (alarms["unpriced"]["receipts"], alarms["unpriced"]["runs"]) == (1, 1)
    (waiting,) = alarms["unpriced"]["newest"]
    assert (waiting["runId"], waiting["model"]) == (unpriced, UNPRICED)
    assert later["unpriced"] == nothing["unpriced"]


async def disagree(world: World, run_id: str, meters: dict[str, int]) -> None:
    """Make a run's meters say this."""
    await execute(
        world.services.database,
        "UPDATE runs SET meters = json_build_object('sdk', :sdk ::int, 'gateway', :gateway ::int,"
        " 'drift', :drift ::int) WHERE run_id = :run",
        **meters,
        run=run_id,
    )


async def test_a_difference_in_cost_alone_is_an_alarm(own: World) -> None:
    runs = [await own.start(a_run()) for _ in range(3)]
    for run_id in runs:
        await own.ended(run_id)
    await cost(own, runs[0], "-0.0030000000")
    await cost(own, runs[1], "0.0000000000")
    await cost(own, runs[2], None)

    drift = (await own.http.get("/v1/alarms")).json()["drift"]

    assert (drift["runs"], drift["messages"], drift["costUsd"]) == (1, 0, "0.0030000000")
    (run,) = drift["newest"]
    assert (run["runId"], run["costComparison"]["driftUsd"]) == (runs[0], "-0.0030000000")
    assert (run["costComparison"]["sdkUsd"], run["costComparison"]["notes"]) == ("0.0210000000", ["batch"])


async def cost(world: World, run_id: str, drift_usd: str | None) -> None:
    """Make the meters of a run differ by so much, as they are stored."""
    compared = CostComparison(
        Decimal("0.018"),
        sdk_usd=None if drift_usd is None else Decimal("0.018") - Decimal(drift_usd),
        drift_usd=None if drift_usd is None else Decimal(drift_usd),
        notes=("batch",),
    )
    value = TypeAdapter(CostComparison).dump_json(compared).decode()
    await execute(
        world.services.database,
        """
                UPDATE runs SET meters = '{"sdk": 1, "gateway": 1, "drift": 0}', cost_comparison = :value
                 WHERE run_id = :run""",
        value=value,
        run=run_id,
    )


async def test_no_tenant_sees_another(own: World) -> None:
    run = await own.start(a_run("unheard of"))
    await own.ended(run)
    await disagree(own, run, {"sdk": 1, "gateway": 1, "drift": 1})
    owners_key = (await own.http.get("/v1/keys")).json()["items"][0]["id"]
    _, secret = await a_tenant(own, "stranger", "theirs")

    async with a_client(own.url, secret) as client:
        alarms = (await client.get("/v1/alarms")).json()
        keys = (await client.get("/v1/keys")).json()["items"]
        of_owner = await messages(client, apiKeyId=owners_key)
        total = (await client.get("/v1/usage", params={"apiKeyId": owners_key})).json()["total"]

    assert (alarms["drift"]["runs"], alarms["unpriced"]["receipts"]) == (0, 0)
    assert [key["name"] for key in keys] == ["theirs"]
    assert (of_owner, total["receipts"]) == ([], 0)


async def test_keys_are_listed_without_their_secrets(world: World) -> None:
    secrets = [(await a_tenant(world, "keys", name=name))[1] for name in ("first", "second")]
    async with a_client(world.url, secrets[0]) as client:
        newest = (await client.get("/v1/keys", params={"limit": 1})).json()
        older = (await client.get("/v1/keys", params={"limit": 1, "cursor": newest["nextCursor"]})).json()
        wrong = await client.get("/v1/keys", params={"cursor": "x"})

    assert [(key["name"], key["prefix"]) for key in (*newest["items"], *older["items"])] == [
        ("second", secrets[1][:7]),
        ("first", secrets[0][:7]),
    ]
    assert older["nextCursor"] is None
    assert set(newest["items"][0]) == {"id", "name", "prefix", "createdAt", "lastUsedAt", "revokedAt"}
    assert wrong.status_code == 422


async def test_only_operators_choose_an_account(world: World) -> None:
    key, secret = await a_tenant(world, "chosen")
    await charge(world, receipt(key, "msg_1"), receipt(key, "msg_2", "unpriced"))
    _, admins = await world.services.accounts.create_key("operators", ["admin", "receipts:read"])
    _, others = await a_tenant(world, "stranger")
    paths = ["/v1/usage", "/v1/receipts", "/v1/alarms", "/v1/balance"]

    async with a_client(world.url, secret) as client:
        own = [(await client.get(path)).json() for path in paths]
    async with a_client(world.url, admins) as client:
        chosen = [(await client.get(path, params={"account": "chosen"})).json() for path in paths]
        by_account = {"groupBy": "account"}
        of_all = (await client.get("/v1/usage", params=by_account)).json()["items"]
        of_one = (await client.get("/v1/usage", params={**by_account, "account": "chosen"})).json()["items"]
        of_none = (await client.get("/v1/usage", params={"account": "operators"})).json()["total"]
    async with a_client(world.url, others) as client:
        refused = [await client.get(path, params={"account": "chosen"}) for path in paths]

    assert chosen == own
    assert [item["group"] for item in of_one] == [str(key.account_id)]
    assert {item["group"]: item["receipts"] for item in of_all}[str(key.account_id)] == 2
    assert of_none["receipts"] == 0
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(404, "account_not_found")}
