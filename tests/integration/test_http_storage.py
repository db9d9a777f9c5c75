"""Deletion of run contents, and storage quotas, over HTTP."""

import httpx

from app.requests.principal import SCOPES
from app.simulator.script import Hold, Reply, Text, in_turn
from tests.e2e.agents import without_cli
from tests.e2e.stories import WorldOf, a_client, a_request
from tests.integration.statements import execute

ONE_MB = {"RUNTALLY_MAX_STORAGE_MB_PER_ACCOUNT": 1}
LARGE = "x" * 600_000


def outcome(response: httpx.Response) -> tuple[int, str | None]:
    """The status of an answer, and the code of a problem."""
    return response.status_code, response.json().get("code") if response.content else None


@without_cli
async def test_a_deleted_run_has_no_contents_and_keeps_its_receipts(world_of: WorldOf) -> None:
    hold = Hold(index=4)
    world = await world_of(in_turn(Reply([Text("one two three")], hold=hold)))
    body = a_request("count", runId="mine")
    path = "/v1/runs/mine"

    await world.start(body)
    await hold.reached.wait()
    running = await world.http.delete(path)
    hold.until.set()
    ended = await world.ended("mine")
    receipts = await world.receipts("mine")
    deleted = [await world.http.delete(path) for _ in range(2)]
    gone = [
        await world.http.get(f"{path}/events"),
        await world.http.get(f"{path}/events", headers={"Last-Event-ID": "2"}),
        *[await world.http.post(f"/v1/runs{way}", json=body) for way in ("", "/wait", "/stream")],
    ]
    other = await world.http.post("/v1/runs", json=a_request("something else", runId="mine"))
    kept = (await world.http.get(path)).json()

    assert outcome(running) == (409, "run_not_ended")
    assert ended["final"]["content"] == "one two three"
    assert [outcome(answer) for answer in deleted] == [(204, None)] * 2
    assert [outcome(answer) for answer in gone] == [(410, "run_deleted")] * len(gone)
    assert outcome(other) == (409, "run_id_taken")
    assert (kept["status"], kept["final"]["content"]) == ("succeeded", "")
    assert kept["contentsDeletedAt"] is not None
    assert len(receipts) == 1
    assert await world.receipts("mine") == receipts
    # The posts that were refused have asked no model.
    assert len(world.simulator.requests) == 1


@without_cli
async def test_a_full_storage_quota_is_a_507_until_something_is_deleted(world_of: WorldOf) -> None:
    world = await world_of(in_turn(*[Reply([Text("ok")])] * 3), **ONE_MB)
    _, key = await world.services.accounts.create_key("umbrella", SCOPES)
    first, second = a_request(LARGE, runId="first", stateKey="chat"), a_request(LARGE, runId="second")

    answered = await world.http.post("/v1/runs/wait", json=first)
    refused = [
        *[await world.http.post(f"/v1/runs{way}", json=second) for way in ("", "/wait", "/stream")],
        await world.http.post("/v1/sessions/chat/fork", json={}),
    ]
    unknown = await world.http.get("/v1/runs/second")
    joined = await world.http.post("/v1/runs/wait", json=first)
    async with a_client(world.url, key) as other:
        beside = await other.post("/v1/runs/wait", json=second)
    freed = [await world.http.delete(path) for path in ("/v1/runs/first", "/v1/sessions/chat")]
    again = await world.http.post("/v1/runs/wait", json=second)

    assert [outcome(answer) for answer in refused] == [(507, "storage_quota")] * len(refused)
    assert "of its quota of 1048576" in refused[0].json()["detail"]
    assert outcome(unknown) == (404, "run_not_found")
    assert joined.json() == answered.json()
    assert [answer.status_code for answer in freed] == [204, 204]
    assert [answer.json()["ok"] for answer in (answered, beside, again)] == [True] * 3
    # The posts that were refused have asked no model.
    assert len(world.simulator.requests) == 3


@without_cli
async def test_a_run_whose_events_are_deleted_keeps_its_answer_and_its_end(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("one two three")])), RUNTALLY_EVENTS_RETENTION_DAYS=1)
    body = a_request("count", runId="old", stateKey="chat")
    before = await world.run(body)
    answered = await world.ended("old")
    early = await world.services.contents.delete_old_events()
    await execute(world.services.database, "UPDATE runs SET ended_at = ended_at - interval '25 hours'")

    deleted = await world.services.contents.delete_old_events()

    after = await world.run(body)
    resumed = await world.http.get("/v1/runs/old/events", headers={"Last-Event-ID": str(before[-1].id)})
    run = await world.ended("old")
    assert (early, deleted) == (0, 1)
    assert answered["eventsDeletedAt"] is None
    assert run["eventsDeletedAt"] is not None
    assert (run["final"], run["contentsDeletedAt"]) == (answered["final"], None)
    # The end of the run was moved.
    assert [{**event.data, "at": None} for event in after] == [
        {**event.data, "at": None} for event in before[-2:]
    ]
    assert [event.type for event in after] == ["assistant_final", "done"]
    assert "id: 999999999\nevent: done" in resumed.text
    assert (await world.http.post("/v1/runs/wait", json=body)).json()["content"] == "one two three"
    conversation = (await world.http.get("/v1/sessions/chat")).json()
    assert "one two three" in str(conversation)
    # The model was called once: a repeated request joins the run.
    assert len(world.simulator.requests) == 1
