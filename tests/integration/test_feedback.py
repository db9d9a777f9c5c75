"""Feedback of people on answers: kept with the run, and deleted with it."""

from app.simulator.script import Reply, Text, in_turn
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.integration.statements import execute, rows

PATH = "/v1/runs/rated/feedback"
NOTE = "Right, and short. \N{GLOWING STAR}"


async def an_answered_run(world: World) -> None:
    body = a_request("hi", graphId="messages:assistant", runId="rated", stateKey="chat", endUser="ann")
    assert (await world.http.post("/v1/runs/wait", json=body)).json()["ok"]


async def test_feedback_is_shown_with_the_run_and_replaced(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("ok")])))
    await an_answered_run(world)
    before = (await world.http.get("/v1/runs/rated")).json()

    up = await world.http.put(PATH, json={"rating": "up", "note": NOTE})
    first = (await world.http.get("/v1/runs/rated")).json()["feedback"]
    down = await world.http.put(PATH, json={"rating": "down"})

    run = (await world.http.get("/v1/runs/rated")).json()
    (listed,) = (await world.http.get("/v1/runs")).json()["items"]
    (*_, result) = (await world.http.get("/v1/sessions/chat")).json()["messages"]
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


async def test_feedback_that_is_none_names_the_field(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("ok")])))
    await an_answered_run(world)

    for body, field in WRONG:
        refused = await world.http.put(PATH, json=body)

        assert (refused.status_code, [each["field"] for each in refused.json()["errors"]]) == (422, [field])
    assert (await world.http.get("/v1/runs/rated")).json()["feedback"] is None


async def test_feedback_is_for_those_who_may_read_the_run(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("ok")])))
    await an_answered_run(world)
    keys = world.services.accounts.create_key
    _, foreign = await keys("umbrella", ["runs:write", "runs:read"])
    _, writer = await keys("default", ["runs:write"])
    _, reader = await keys("default", ["runs:read"])
    answers = []
    for secret in (foreign, writer, reader):
        async with a_client(world.url, secret) as client:
            answers.append(await client.put(PATH, json={"rating": "down"}))
    unknown = await world.http.put("/v1/runs/unknown/feedback", json={"rating": "down"})

    assert [answer.status_code for answer in answers] == [404, 403, 403]
    assert (unknown.status_code, unknown.json()["code"]) == (404, "run_not_found")
    assert (await world.http.get("/v1/runs/rated")).json()["feedback"] is None


async def test_feedback_is_for_the_run_of_one_account(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))
    await an_answered_run(world)
    _, other = await world.services.accounts.create_key("umbrella", ["runs:write", "runs:read"])
    async with a_client(world.url, other) as client:
        body = a_request("hi", graphId="messages:assistant", runId="rated")
        assert (await client.post("/v1/runs/wait", json=body)).json()["ok"]

        await world.http.put(PATH, json={"rating": "up"})

        assert (await client.get("/v1/runs/rated")).json()["feedback"] is None
    assert (await world.http.get("/v1/runs/rated")).json()["feedback"]["rating"] == "up"


async def test_feedback_is_deleted_with_the_contents_of_its_run(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("ok")])))
    await an_answered_run(world)
    await world.http.put(PATH, json={"rating": "up", "note": NOTE})

    assert (await world.http.delete("/v1/runs/rated")).status_code == 204
    late = await world.http.put(PATH, json={"rating": "up", "note": NOTE})

    assert (late.status_code, late.json()["code"]) == (410, "run_deleted")
    assert (await world.http.get("/v1/runs/rated")).json()["feedback"] is None
    assert await kept(world) == []


async def test_feedback_is_deleted_by_a_server_that_does_not_know_it(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("ok")])))
    await an_answered_run(world)
    await world.http.put(PATH, json={"rating": "up", "note": NOTE})

    # As the release before deletes contents.
    await execute(world.services.database, "UPDATE runs SET contents_deleted_at = now(), request = NULL")

    assert await kept(world) == []


async def kept(world: World) -> list[object]:
    """The feedback in the database."""
    found = await rows(world.services.database, "SELECT feedback FROM runs WHERE feedback IS NOT NULL")
    return [row.feedback for row in found]
