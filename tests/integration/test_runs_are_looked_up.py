"""The request of a run is read, and repeated; where it was executed is shown to operators."""

from app.simulator.script import in_turn
from tests.e2e.stories import WorldOf, a_client, a_request
from tests.factories import scripted
from tests.scripted import WriteMessage

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_a_request_is_read_as_it_was_posted_until_its_run_is_deleted(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi")))
    image = {"type": "image", "mediaType": "image/png", "data": PIXEL}
    parts = [{"type": "text", "text": "What is this?"}, image]
    body = a_request(runId="first", tags={"team": "search"}, limits={"maxTurns": 3}, endUser="ann")
    body["messages"] = [{"role": "user", "content": parts}]
    await world.run(body | {"metadata": {"order": "7"}})
    path = "/v1/runs/first/request"

    found = (await world.http.get(path)).raise_for_status().json()
    again = {name: value for name, value in found.items() if name != "runId"}
    repeated = (await world.http.post("/v1/runs/wait", json=again)).raise_for_status().json()
    executed = (await world.http.get("/v1/fleet/runs/first")).raise_for_status().json()
    _, secret = await world.services.accounts.create_key("default", ["runs:write"])
    async with a_client(world.url, secret) as writer:
        refused = [await writer.get(each) for each in (path, "/v1/fleet/runs/first")]
    (await world.http.delete("/v1/runs/first")).raise_for_status()
    deleted = await world.http.get(path)
    unknown = [await world.http.get(f"/v1/{each}") for each in ("runs/none/request", "fleet/runs/none")]

    assert found == body
    assert (repeated["ok"], repeated["runId"] != "first") == (True, True)
    (attempt,) = executed["attempts"]
    (worker,) = (await world.http.get("/v1/fleet")).json()["workers"]
    assert attempt == {
        "attempt": 0,
        "processId": worker["processId"],
        "takenOverAt": None,
        "handedOver": False,
    }
    assert [each.status_code for each in refused] == [403, 403]
    assert (deleted.status_code, deleted.json()["code"]) == (410, "run_deleted")
    assert [each.json()["code"] for each in unknown] == ["run_not_found"] * 2
