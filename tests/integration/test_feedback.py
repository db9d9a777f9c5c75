"""Feedback of people on answers: kept with the run, and deleted with it."""

import pytest_asyncio

from app.simulator.script import Reply, Text
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.integration.conftest import in_shared_world
from tests.integration.statements import execute, rows

pytestmark = in_shared_world

PATH = "/v1/runs/rated/feedback"
NOTE = "Right, and short. \N{GLOWING STAR}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(shared_world_of: WorldOf) -> World:
    return await shared_world_of(lambda _: Reply([Text("ok")]))


async def an_answered_run(world: World) -> None:
    body = a_request("hi", graphId="messages:assistant", runId="rated", stateKey="chat", endUser="ann")
    assert (await world.http.post("/v1/runs/wait", json=body)).json()["ok"]


async def test_feedback_is_shown_with_the_run_and_replaced(own: World) -> None:
    await an_answered_run(own)
    before = (await own.http.get("/v1/runs/rated")).json()

    up = await own.http.put(PATH, json={"rating": "up", "note": NOTE})
    first = (await own.http.get("/v1/runs/rated")).json()["feedback"]
    down = await own.http.put(PATH, json={"rating": "down"})

    run = (await own.http.get("/v1/runs/rated")).json()
    (listed,) = (await own.http.get("/v1/runs")).json()["items"]
    (*_, result) = (await own.http.get("/v1/sessions/chat")).json()["messages"]
    assert before["feedback"] is None
    assert (up.status_code, up.json()["rating"], up.json()["note"]) == (200, "up", NOTE)
    assert first == up.json()
    assert (down.json()["rating"], down.json()["note"]) == ("down", None)
    assert run["feedback"] == listed["feedback"] == result["feedback"] == down.json()
    assert {**run, "feedback": None} == before


WRONG: list[tuple[dict[str, object], str]] = [
    ({}, "rating"),
    ({"rating": "middling"}, "rating"),
    ({"rating": None}, "rating"),
    ({"rating": "up", "note": ""}, "note"),
    ({"rating": "up", "note": "x" * 4_001}, "note"),
    ({"rating": "up", "stars": 5}, "stars"),
]


async def test_feedback_that_is_none_names_the_field(own: World) -> None:
    await an_answered_run(own)

    for body, field in WRONG:
        refused = await own.http.put(PATH, json=body)

        assert (refused.status_code, [each["field"] for each in refused.json()["errors"]]) == (422, [field])
    assert (await own.http.get("/v1/runs/rated")).json()["feedback"] is None


async def test_feedback_is_for_those_who_may_read_the_run(own: World, account: str) -> None:
    await an_answered_run(own)
    keys = own.services.accounts.create_key
    _, foreign = await keys("umbrella", ["runs:write", "runs:read"])
    _, writer = await keys(account, ["runs:write"])
    _, reader = await keys(account, ["runs:read"])
    answers = []
    for secret in (foreign, writer, reader):
        async with a_client(own.url, secret) as client:
            answers.append(await client.put(PATH, json={"rating": "down"}))
    unknown = await own.http.put("/v1/runs/unknown/feedback", json={"rating": "down"})

    assert [answer.status_code for answer in answers] == [404, 403, 403]
    assert (unknown.status_code, unknown.json()["code"]) == (404, "run_not_found")
    assert (await own.http.get("/v1/runs/rated")).json()["feedback"] is None


async def test_feedback_is_for_the_run_of_one_account(own: World) -> None:
    await an_answered_run(own)
    _, other = await own.services.accounts.create_key("umbrella", ["runs:write", "runs:read"])
    async with a_client(own.url, other) as client:
        body = a_request("hi", graphId="messages:assistant", runId="rated")
        assert (await client.post("/v1/runs/wait", json=body)).json()["ok"]

        await own.http.put(PATH, json={"rating": "up"})

        assert (await client.get("/v1/runs/rated")).json()["feedback"] is None
    assert (await own.http.get("/v1/runs/rated")).json()["feedback"]["rating"] == "up"


async def test_feedback_is_deleted_with_the_contents_of_its_run(own: World) -> None:
    await an_answered_run(own)
    await own.http.put(PATH, json={"rating": "up", "note": NOTE})

    assert (await own.http.delete("/v1/runs/rated")).status_code == 204
    late = await own.http.put(PATH, json={"rating": "up", "note": NOTE})

    assert (late.status_code, late.json()["code"]) == (410, "run_deleted")
    assert (await own.http.get("/v1/runs/rated")).json()["feedback"] is None
    assert await kept(own) == []


async def test_feedback_is_deleted_by_a_server_that_does_not_know_it(own: World) -> None:
    await an_answered_run(own)
    await own.http.put(PATH, json={"rating": "up", "note": NOTE})

    # As the release before deletes contents.
    await execute(own.services.database, "UPDATE runs SET contents_deleted_at = now(), request = NULL")

    assert await kept(own) == []


async def kept(world: World) -> list[object]:
    """The notes in the database."""
    found = await rows(world.services.database, "SELECT feedback FROM runs WHERE feedback IS NOT NULL")
    return [row.feedback for row in found if NOTE in str(row.feedback)]
