"""What the runs of a key are labelled with, whichever way they are started."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.requests.attribution import KeyLabels
from app.simulator.script import Reply, Text
from tests.batches import JSON_LINES, a_line, created, ended, joined
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.e2e.test_an_end_user_is_erased import erased
from tests.integration.external_calls import HELLO, MESSAGES
from tests.integration.mcp_messages import a_call
from tests.integration.statements import rows, until

GRAPH = "messages:assistant"
KEYS = "/v1/accounts/default/keys"
SCOPES = ("runs:write", "runs:read", "receipts:read", "external:write", "keys:write")
ANN: dict[str, Any] = {"endUser": "ann", "tags": {"team": "search"}}
FIXED = {**ANN, "fixed": True}
OTHER_USER = {"endUser": "bob"}
OTHER_TEAM = {"tags": {"team": "mail"}}


@pytest_asyncio.fixture
async def world(world_of: WorldOf) -> World:
    return await world_of(lambda _: Reply((Text("hi"),)))


@asynccontextmanager
async def holder(world: World, **labels: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that has these labels."""
    made = await world.http.post(KEYS, json={"scopes": SCOPES, "labels": labels})
    assert made.status_code == 201, made.text
    async with a_client(world.url, made.json()["key"]) as client:
        yield client


def ways(labels: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The paths that take a run in JSON, and a body of each that names these labels."""
    user = {"id": "u", "role": "user"}
    run = a_request() | labels | {"graphId": GRAPH}
    named = {("user" if name == "endUser" else name): value for name, value in labels.items()}
    parts = [{**user, "parts": [{"type": "text", "text": "hi"}]}]
    thread = {"threadId": "t", "runId": "r", "messages": [{**user, "content": "hi"}]}
    return {
        "/v1/runs/wait": run,
        f"/v1/ai-sdk/{GRAPH}/chat": {"id": "c", "messages": parts, **labels},
        f"/v1/ag-ui/{GRAPH}": {**thread, "forwardedProps": {"runtally": labels}},
        "/openai/v1/chat/completions": {"model": GRAPH, "messages": [{**user, "content": "hi"}], **named},
        "/mcp": a_call(GRAPH.replace(":", "__"), "hi", _meta={f"runtally/{k}": v for k, v in labels.items()}),
        "/openai/v1/responses": {"model": GRAPH, "input": "hi", **named},
        "/v1/generate/text": {"prompt": "hi", **labels},
    }


async def shown(client: httpx.AsyncClient) -> list[tuple[str | None, dict[str, str] | None]]:
    """The labels of all runs."""
    runs = (await client.get("/v1/runs", params={"limit": 100})).raise_for_status().json()["items"]
    return [(each["endUser"], each["tags"]) for each in runs]


async def test_every_way_in_has_the_labels_of_the_key(world: World) -> None:
    async with holder(world, **FIXED) as client:
        for path, body in ways({}).items():
            answer = await client.post(path, json=body)
            assert answer.is_success, (path, answer.text)
        schedule = {"cron": "0 0 1 1 *", "run": a_request() | {"graphId": GRAPH}}
        path = (await client.post("/v1/schedules", json=schedule)).raise_for_status().headers["location"]
        (await client.post(f"{path}/trigger")).raise_for_status()
        await ended(client, await created(client, [a_line("1", "hi", graph=GRAPH)]))
        claude_code = {"user_id": json.dumps({"device_id": "b1ef", "session_id": "s"})}
        for metadata in ({}, {"metadata": claude_code}):
            assert (await client.post(MESSAGES, json={**HELLO, **metadata})).is_success

        async def all_are_charged() -> bool:
            found = (await client.get("/v1/receipts")).raise_for_status().json()["items"]
            assert {each["endUser"] for each in found} == {"ann"}
            return len({each["runId"] for each in found}) >= 9

        await until(all_are_charged)
        labels = await shown(client)
    assert len(labels) >= 9
    assert all(each == (ANN["endUser"], ANN["tags"]) for each in labels)


@pytest.mark.parametrize(("labels", "field"), [(OTHER_USER, "endUser"), (OTHER_TEAM, "tags.team")])
async def test_a_request_that_names_others_than_the_fixed_ones_is_refused(
    world: World, labels: dict[str, Any], field: str
) -> None:
    async with holder(world, **FIXED) as client:
        answers = {path: await client.post(path, json=body) for path, body in ways(labels).items()}
        run = a_request() | labels | {"graphId": GRAPH}
        answers["preview"] = await client.post("/v1/runs/preview", json=run)
        answers["schedule"] = await client.post("/v1/schedules", json={"cron": "0 0 1 1 *", "run": run})
        lines = joined([a_line("1", "hi", graph=GRAPH, **labels)])
        answers["batch"] = await client.post("/v1/batches", content=lines, headers=JSON_LINES)
        if labels == OTHER_USER:
            named = {**HELLO, "metadata": {"user_id": "bob"}}
            answers["anthropic"] = await client.post(MESSAGES, json=named)
            answers["header"] = await client.post(MESSAGES, json=HELLO, headers={"runtally-end-user": "bob"})
        started = await shown(client)
        # What they name is the same.
        for path, body in ways(ANN).items():
            assert (await client.post(path, json=body)).is_success, path

    for way, answer in answers.items():
        assert answer.status_code in {400, 422} or "error" in answer.json(), (way, answer.text)
        posted = "user" if way.startswith("/openai") and field == "endUser" else field
        assert f"{posted}: is fixed to another value by the API key" in answer.text, (way, answer.text)
    assert started == []


async def test_what_is_not_fixed_is_what_the_request_says(world: World) -> None:
    async with holder(world, **ANN) as client:
        for labels in ({}, OTHER_USER, OTHER_TEAM, {"tags": {"env": "prod"}}):
            run = a_request() | labels | {"graphId": GRAPH}
            assert (await client.post("/v1/runs/wait", json=run)).is_success
        found = await shown(client)
        many = {"tags": {f"t{number}": "v" for number in range(10)}}
        refused = await client.post("/v1/runs", json=a_request() | many | {"graphId": GRAPH})

    team = ANN["tags"]
    assert found[::-1] == [
        *(("ann", team), ("bob", team), ("ann", {"team": "mail"})),
        ("ann", {**team, "env": "prod"}),
    ]
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "tags")


async def test_a_run_is_joined_with_a_key_of_other_labels(world: World) -> None:
    run = a_request(runId="run-1") | {"graphId": GRAPH}
    async with holder(world, **ANN) as first, holder(world, **OTHER_USER) as second:
        (await first.post("/v1/runs/wait", json=run)).raise_for_status()
        again = await second.post("/v1/runs/wait", json=run)
        found = await shown(second)

    assert again.is_success
    assert found == [("ann", ANN["tags"])]


async def test_a_key_with_fixed_labels_gives_no_others(world: World) -> None:
    async with holder(world, **FIXED) as client:
        for wanted in ({**FIXED, **OTHER_TEAM}, {**FIXED, **OTHER_USER}, ANN):
            refused = await client.post(KEYS, json={"scopes": ["runs:write"], "labels": wanted})

            assert (refused.status_code, refused.json()["code"]) == (403, "exceeds_own_rights"), wanted
            assert refused.json()["detail"].startswith("labels: ")


async def test_labels_are_shown_passed_on_and_kept_by_a_rotation(world: World) -> None:
    more = {**FIXED, "tags": {"team": "search", "env": "prod"}}
    async with holder(world, **FIXED) as client:
        made = [
            (await client.post(KEYS, json={"scopes": ["runs:write"], **labels})).raise_for_status().json()
            for labels in ({}, {"labels": more})
        ]
        rotated = (await client.post(f"/v1/keys/{made[0]['id']}/rotate")).raise_for_status().json()
        listed = (await client.get(KEYS)).raise_for_status().json()["items"]

    assert [each["labels"] for each in (*made, rotated)] == [FIXED, more, FIXED]
    assert [each["labels"] for each in listed] == [FIXED, more, FIXED, FIXED, None]


UNNAMEABLE: list[tuple[dict[str, Any], str]] = [
    ({"endUser": "~0"}, "labels.endUser"),
    ({"tags": {"a b": "v"}}, "labels.tags.a b"),
    ({"fixed": "yes"}, "labels.fixed"),
    ({"metadata": {}}, "labels.metadata"),
]


async def test_labels_are_those_that_a_request_could_name(world: World) -> None:
    for labels, field in UNNAMEABLE:
        refused = await world.http.post(KEYS, json={"scopes": ["runs:write"], "labels": labels})

        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)


async def test_keys_lose_the_end_user_who_is_erased(world: World) -> None:
    async with holder(world, **FIXED) as fixed, holder(world, **ANN) as free:
        schedule = {"cron": "0 0 1 1 *", "run": a_request() | {"graphId": GRAPH}}
        (await free.post("/v1/schedules", json=schedule)).raise_for_status()
        (await fixed.post("/v1/runs/wait", json=a_request() | {"graphId": GRAPH})).raise_for_status()

        await erased(world, "ann")

        after = [(await client.get("/v1/runs")).status_code for client in (fixed, free)]
        schedules = (await free.get("/v1/schedules")).json()["items"]
        (await free.post("/v1/runs/wait", json=a_request() | {"graphId": GRAPH})).raise_for_status()
        labels = (await shown(free))[0]
    kept = await rows(world.services.database, "SELECT labels FROM api_keys WHERE labels IS NOT NULL")
    audited = await rows(world.services.database, "SELECT after FROM audit_entries")

    assert after == [401, 200]
    assert schedules == []
    assert labels == (None, ANN["tags"])
    assert {KeyLabels.model_validate(row.labels).end_user for row in kept} == {None}
    assert "ann" not in str(audited)
