"""Properties of all responses, over HTTP."""

import json
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from app.platform.embedded.postgres import EmbeddedPostgres
from app.simulator.script import in_turn
from tests.e2e.stories import World, WorldOf, a_client, a_request, a_world
from tests.factories import scripted
from tests.integration.conftest import in_shared_world
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

JSON = {"Content-Type": "application/json"}
FOREIGN = ("/openai/", "/anthropic/", "/managed-agents/", "/mcp")
"""Paths that have errors of their own."""


@in_shared_world
async def test_authentication_comes_before_validation(world: World) -> None:
    _, key = await world.services.accounts.create_key("acme", ["runs:read"])

    async with httpx.AsyncClient(base_url=world.url, timeout=PATIENCE_S) as nobody:
        missing = await nobody.post("/v1/runs", content=b'{"a": NaN}', headers=JSON)
    async with a_client(world.url, key) as reader:
        forbidden = await reader.post("/v1/runs", content=b"plain", headers={"Content-Type": "text/plain"})

    assert (missing.status_code, forbidden.status_code) == (401, 403)


@in_shared_world
async def test_every_response_has_a_request_id_and_every_error_is_a_problem(world: World) -> None:
    requests = [
        ("GET", "/nowhere"),
        ("GET", "/v1/runs/"),
        ("PUT", "/v1/runs"),
        ("OPTIONS", "/v1/receipts"),
        ("GET", "/v1/runs/a%2Fb"),
        ("GET", "/v1/receipts?from=0001-01-01T00:00:00%2B05:00"),
        ("GET", "/v1/receipts?to=9999-12-31T23:59:59-05:00"),
    ]

    for method, path in requests:
        response = await world.http.request(method, path, headers={"X-Request-ID": "mine-1"})
        problem = response.json()
        assert response.headers["x-request-id"] == "mine-1"
        assert response.headers["content-type"] == "application/problem+json"
        assert problem["status"] == response.status_code < 500, (method, path)
        assert problem["type"] == f"urn:runtally:problem:{problem['code']}"


async def test_an_unavailable_database_is_reported_without_its_address(migrated_path: Path) -> None:
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(AsyncExitStack())
        server = await running.enter_async_context(EmbeddedPostgres.start(migrated_path))
        world = await stack.enter_async_context(a_world(migrated_path, server.url, in_turn()))
        await running.aclose()

        answers = [
            await world.http.get("/readyz"),
            await world.http.get("/v1/runs"),
            await world.http.post("/v1/runs/stream", json=a_request()),
            await world.http.get("/v1/receipts", headers={"Accept": "text/csv"}),
        ]
        alive = await world.http.get("/healthz")

    assert alive.status_code == 200
    assert answers[0].json()["detail"] == "Not available: database."
    for response in answers:
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert response.headers["content-type"] == "application/problem+json"
        assert "127.0.0.1" not in response.text


async def test_an_unavailable_relay_is_reported_and_the_server_stays_ready(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    await world.services.log.aclose()

    response = await world.http.get("/readyz")

    assert (response.status_code, response.json()["relay"]) == (200, "unavailable")
    assert response.json()["relayProblem"] == "The event log is closed."


@in_shared_world
async def test_the_api_describes_itself(world: World) -> None:
    async with httpx.AsyncClient(base_url=world.url, timeout=PATIENCE_S) as nobody:
        described = (await nobody.get("/openapi.json")).json()
        docs = await nobody.get("/docs")

    operations = [
        (path, operation) for path, item in described["paths"].items() for operation in item.values()
    ]
    assert described["info"]["title"] == "Runtally"
    assert {"/v1/runs/{runId}/events", "/v1/receipts", "/readyz"} <= set(described["paths"])
    assert described["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    body = described["components"]["schemas"]["GraphRunRequest"]
    assert {"runId", "graphId", "messages", "toolIds", "limits"} <= set(body["properties"])
    for path, operation in operations:
        assert operation["summary"]
        assert operation["tags"]
        media_type = "application/json" if path.startswith(FOREIGN) else "application/problem+json"
        assert set(operation["responses"]["4XX"]["content"]) == {media_type}
    stream = described["paths"]["/v1/runs/stream"]["post"]["responses"]["200"]
    assert set(stream["content"]) == {"text/event-stream"}
    assert "text/html" in docs.headers["content-type"]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["application/json, application/json"], 202),
        (["application/json", "application/json; charset=utf-8"], 202),
        (["text/plain, application/json"], 415),
        (["application/json", "text/plain"], 415),
        (["application/json,"], 415),
        ([], 415),
    ],
)
@in_shared_world
async def test_a_content_type_may_be_given_twice(world: World, lines: list[str], status: int) -> None:
    body = json.dumps(a_request()).encode()

    answer = await world.http.post(
        "/v1/runs", content=body, headers=[("Content-Type", line) for line in lines]
    )

    assert answer.status_code == status, answer.text


@in_shared_world
async def test_each_answer_has_one_type(world: World) -> None:
    for path in ("/metrics", "/v1/receipts", "/healthz", "/", "/openapi.json", "/v1/nothing"):
        accept = {"Accept": "text/csv"} if path == "/v1/receipts" else {}
        answer = await world.http.get(path, headers=accept)
        (value,) = answer.headers.get_list("content-type")
        assert value.count("charset") <= 1, (path, value)


async def test_locations_have_the_prefix_that_a_proxy_removes(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi")), RUNTALLY_PATH_PREFIX="/a/b")

    answer = await world.http.post("/v1/runs", json=a_request(runId="located-1"))

    assert answer.headers["Location"] == "/a/b/v1/runs/located-1"
