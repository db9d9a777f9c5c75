import asyncio
from typing import Any

import httpx
import pytest

from app.simulator.script import in_turn
from tests.e2e.stories import ASSISTANT, World, WorldOf, a_client, a_request
from tests.factories import scripted
from tests.integration.conftest import in_shared_world
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage


@in_shared_world
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"extra": 1}, "extra"),
        ({"graphId": None}, "graphId"),
        ({"graphId": "assistant"}, "graphId"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "hi"}]}, "messages.0.role"),
        ({"model": "gpt-4"}, "model"),
        ({"toolIds": ["nope"]}, "toolIds.0"),
        ({"runId": "a/b"}, "runId"),
        ({"stateKey": "a key"}, "stateKey"),
        ({"onConflict": "wait"}, "onConflict"),
        ({"limits": {"maxBudgetUsd": "-1"}}, "limits.maxBudgetUsd"),
        ({"responseFormat": {"type": "json_schema", "schema": {"type": 5}}}, "responseFormat.schema"),
        ({"responseFormat": {"type": "json_schema", "schema": {"$ref": "#"}}}, "responseFormat.schema"),
        ({"responseFormat": {"type": "text"}}, "responseFormat.type"),
    ],
)
async def test_an_invalid_field_is_named(world: World, change: dict[str, Any], field: str) -> None:
    response = await world.http.post("/v1/runs", json={**a_request(), **change})

    problem = response.json()
    assert response.status_code == 422, problem
    assert response.headers["content-type"] == "application/problem+json"
    assert field in [error["field"] for error in problem["errors"]]
    assert set(problem) == {"type", "title", "status", "detail", "code", "errors"}
    assert (await world.http.get("/v1/runs")).json()["items"] == []


@in_shared_world
async def test_errors_do_not_repeat_submitted_values(world: World) -> None:
    response = await world.http.post("/v1/runs", json=a_request(model={"my": "secret-value"}))

    assert response.status_code == 422
    assert "secret-value" not in response.text


@in_shared_world
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 422),
        (b"null", 422),
        (b"\xff\xfe", 400),
    ],
)
async def test_malformed_bodies_are_rejected(world: World, body: bytes, status: int) -> None:
    response = await world.http.post("/v1/runs", content=body, headers={"Content-Type": "application/json"})

    assert response.status_code == status, response.text
    assert response.json()["status"] == status


@in_shared_world
async def test_only_json_is_accepted(world: World) -> None:
    response = await world.http.post("/v1/runs", content=b"{}", headers={"Content-Type": "text/plain"})

    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


async def test_a_body_over_the_limit_is_rejected(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_MAX_BODY_BYTES=2048)

    async def endless() -> Any:
        for _ in range(10):
            yield b" " * 1024

    announced = await world.http.post("/v1/runs", json=a_request("x" * 4096))
    unannounced = await world.http.post(
        "/v1/runs", content=endless(), headers={"Content-Type": "application/json"}
    )

    for response in (announced, unannounced):
        assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
        assert "x-request-id" in response.headers


@in_shared_world
async def test_unknown_resources_are_not_found(world: World) -> None:
    graph = await world.http.post("/v1/runs/stream", json=a_request(graphId="claude_agents:nope"))
    provider = await world.http.post("/v1/runs", json=a_request(graphId="others:assistant"))
    run = await world.http.get("/v1/runs/nope")
    strange = await world.http.get("/v1/runs/%00")
    path = await world.http.get("/v2")
    method = await world.http.delete("/v1/runs")

    assert (graph.status_code, graph.json()["code"]) == (404, "graph_not_found")
    assert provider.status_code == 404
    assert (run.status_code, run.json()["code"]) == (404, "run_not_found")
    assert strange.status_code == 404
    assert (path.status_code, path.json()["code"]) == (404, "not_found")
    assert (method.status_code, method.json()["code"]) == (405, "method_not_allowed")


@in_shared_world
async def test_a_request_without_a_key_is_told_how_to_authenticate(world: World) -> None:
    async with httpx.AsyncClient(base_url=world.url, timeout=PATIENCE_S) as nobody:
        answers = [await nobody.get("/v1/runs"), await nobody.get("/v1/runs", auth=("user", "rt_x"))]

    for response in answers:
        assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")
        assert response.headers["www-authenticate"] == "Bearer"


async def test_costs_need_the_scope_receipts_read(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi")))
    _, key = await world.services.accounts.create_key("default", ["runs:read"])
    await world.run(a_request(runId="money-1"))

    async with a_client(world.url, key) as reader:
        run = (await reader.get("/v1/runs/money-1")).json()

    assert run["status"] == "succeeded"
    assert run["billing"] is None


async def test_lists_are_paged_without_gaps(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi")))
    made = [f"page-{number}" for number in range(5)]
    for run_id in made:
        await world.run(a_request(runId=run_id))

    for path, name in (("/v1/runs", "runId"), ("/v1/receipts", "runId")):
        seen, cursor = [], None
        while True:
            params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = (await world.http.get(path, params=params)).json()
            seen += [item[name] for item in page["items"]]
            if (cursor := page["nextCursor"]) is None:
                break
        assert seen == made[::-1]


async def test_runs_are_listed_by_what_they_are(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi")))
    for number in range(4):
        await world.run(a_request(runId=f"run-{number}", stateKey=f"chat-{number % 2}"))
    key, other = await world.services.accounts.create_key("default", ("runs:write", "runs:read"))
    async with a_client(world.url, other) as http:
        await http.post("/v1/runs/wait", json=a_request(runId="run-4", model="opus"))
    runs = {run["runId"]: run for run in (await world.http.get("/v1/runs")).json()["items"]}

    async def listed(**params: str) -> str:
        found = (await world.http.get("/v1/runs", params=params)).json()["items"]
        return "".join(run["runId"].removeprefix("run-") for run in found)

    assert await listed(stateKey="chat-1") == "31"
    assert await listed(status="succeeded", limit="2") == "43"
    assert await listed(status="failed") == ""
    assert await listed(graphId=ASSISTANT, model=runs["run-4"]["model"]) == "4"
    assert await listed(graphId="claude_agents:none") == ""
    assert await listed(apiKeyId=str(key.id)) == "4"
    assert await listed(**{"from": runs["run-1"]["createdAt"], "to": runs["run-3"]["createdAt"]}) == "21"


EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
PERIODS = ("/v1/usage", "/v1/usage/cache-misses", "/v1/alarms", "/v1/exports/focus")


@in_shared_world
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/receipts?limit=0", "limit"),
        ("/v1/receipts?limit=201", "limit"),
        ("/v1/receipts?cursor=nonsense", "cursor"),
        ("/v1/runs?cursor=WyJhIiwgImIiXQ", "cursor"),
        ("/v1/receipts?model=%00", "model"),
        ("/v1/receipts?from=yesterday", "from"),
        ("/v1/receipts?to=2026-01-01T00:00:00", "to"),
        ("/v1/runs?status=late", "status"),
        ("/v1/usage?groupBy=week", "groupBy"),
        ("/v1/usage?timeZone=Mars/Olympus", "timeZone"),
        ("/v1/usage?timeZone=../etc/passwd", "timeZone"),
        ("/v1/usage?timeZone=localtime", "timeZone"),
        ("/v1/usage?splitBy=model", "groupBy"),
        ("/v1/usage?groupBy=day&splitBy=day", "splitBy"),
        ("/v1/usage?groupBy=day&splitBy=model&top=0", "top"),
        ("/v1/usage?groupBy=day&splitBy=model&top=51", "top"),
        ("/v1/usage?apiKeyId=me", "apiKeyId"),
        ("/v1/receipts?apiKeyId=me", "apiKeyId"),
        ("/v1/receipts?basis=guessed", "basis"),
        ("/v1/receipts?basis=partial' OR 'a' = 'a", "basis"),
        ("/v1/receipts?origin=elsewhere", "origin"),
        ("/v1/receipts?cacheMiss=bad luck", "cacheMiss"),
        ("/v1/receipts?format=xml", "format"),
        ("/v1/usage/cache-misses?top=51", "top"),
        *((f"{path}?from={LATER}&to={EARLIER}", "to") for path in PERIODS),
        ("/v1/alarms?from=lately", "from"),
        (f"/v1/exports/focus?to={LATER}", "from"),
        (f"/v1/exports/focus?from={EARLIER}", "to"),
        (f"/v1/exports/focus?from={EARLIER}&to={LATER}&format=xlsx", "format"),
    ],
)
async def test_an_invalid_parameter_is_named(world: World, path: str, field: str) -> None:
    response = await world.http.get(path)

    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]


async def test_an_invalid_position_is_rejected(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi")))
    await world.run(a_request(runId="position-1"))
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"params": {"after": "-1"}}, "after"),
        ({"params": {"after": "x"}}, "after"),
        ({"params": {"after": str(10**30)}}, "after"),
        ({"headers": {"Last-Event-ID": "abc"}}, "Last-Event-ID"),
        ({"headers": {"Last-Event-ID": "-1"}}, "Last-Event-ID"),
        ({"headers": {"Last-Event-ID": "9" * 40}}, "Last-Event-ID"),
    ]

    for options, field in invalid:
        response = await world.http.get("/v1/runs/position-1/events", **options)
        assert response.status_code == 422, options
        assert [error["field"] for error in response.json()["errors"]] == [field], options


@in_shared_world
async def test_an_idempotency_key_must_be_printable(world: World) -> None:
    response = await world.http.post("/v1/runs", json=a_request(), headers={"Idempotency-Key": "x" * 256})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "Idempotency-Key"


async def test_write_requests_of_a_key_are_limited(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_MAX_WRITES_PER_SECOND=1)
    _, other = await world.services.accounts.create_key("default", ["runs:write"])

    many = await asyncio.gather(*(world.http.post("/v1/runs/none/cancel") for _ in range(30)))
    async with a_client(world.url, other) as calm:
        beside = await calm.post("/v1/runs/none/cancel")
    reading = await world.http.get("/v1/runs")

    refused = [answer for answer in many if answer.status_code == 429]
    assert 4 <= len(many) - len(refused) < 30
    assert {(answer.json()["code"], answer.headers["retry-after"]) for answer in refused} <= {
        ("rate_limit", "1"),
        ("rate_limit", "2"),
    }
    assert (beside.status_code, reading.status_code) == (404, 200)


@in_shared_world
async def test_catalogs_and_health(world: World) -> None:
    graphs = (await world.http.get("/v1/graphs")).json()["items"]
    tools = (await world.http.get("/v1/tools")).json()["items"]
    async with httpx.AsyncClient(base_url=world.url, timeout=PATIENCE_S) as nobody:
        alive = await nobody.get("/healthz")
        ready = await nobody.get("/readyz")

    assert ASSISTANT in [graph["id"] for graph in graphs]
    assert all("prompt" not in graph for graph in graphs)
    assert "core__get_current_time" in [tool["id"] for tool in tools]
    assert tools[0]["inputSchema"]["type"] == "object"
    assert (alive.status_code, ready.status_code, ready.json()["receipts"]) == (200, 200, "ok")
