"""Schedules over HTTP."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.requests.principal import SCOPES
from app.simulator.script import in_turn
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.integration.conftest import in_shared_world
from tests.integration.test_http_billing import holder
from tests.integration.test_http_storage import ONE_MB, outcome
from tests.scripted import WriteMessage

YEARLY = "0 0 1 1 *"
UNKNOWN = "/v1/schedules/unknown"
SAYS_HI = WriteMessage("hi")


def a_body(cron: str = YEARLY, **fields: Any) -> dict[str, Any]:
    """The body of a schedule."""
    return {"cron": cron, "run": a_request("What changed?"), **fields}


async def created(http: httpx.AsyncClient, cron: str = YEARLY, **fields: Any) -> str:
    """The path of a new schedule."""
    answer = await http.post("/v1/schedules", json=a_body(cron, **fields))
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


async def history(http: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """Its due times, newest first."""
    items: list[dict[str, Any]] = (await http.get(f"{path}/runs")).raise_for_status().json()["items"]
    return items


@in_shared_world
async def test_a_schedule_is_created_shown_changed_paused_and_deleted(tenant: httpx.AsyncClient) -> None:
    now = datetime.now(UTC)
    end = f"{now.year + 3}-06-01T00:00:00Z"
    body = a_body(scheduleId="report", timeZone="Asia/Kathmandu", overlap="queue", endAt=end, catchUpS=60)

    made = await tenant.post("/v1/schedules", json=body)
    schedule, path = made.json(), made.headers["location"]
    listed = (await tenant.get("/v1/schedules")).json()
    shown = (await tenant.get(path)).json()
    changed = (await tenant.patch(path, json={"cron": "@daily", "endAt": None, "overlap": "allow"})).json()
    same = (await tenant.patch(path, json={})).json()
    other_run = a_request("Else?", model="sonnet", stateKey="chat")
    rerun = (await tenant.patch(path, json={"run": other_run})).json()
    paused = [(await tenant.post(f"{path}/pause")).json() for _ in range(2)]
    while_paused = (await tenant.patch(path, json={"cron": YEARLY})).json()
    resumed = [(await tenant.post(f"{path}/resume", json={})).json() for _ in range(2)]
    deleted = await tenant.delete(path)

    next_year = f"{now.year}-12-31T18:15:00Z"
    assert (made.status_code, path) == (201, "/v1/schedules/report")
    assert {name: schedule[name] for name in schedule if name != "createdAt"} == {
        "scheduleId": "report",
        "cron": YEARLY,
        "timeZone": "Asia/Kathmandu",
        "overlap": "queue",
        "startAt": None,
        "endAt": end,
        "catchUpS": 60,
        "graphId": "claude_agents:assistant",
        "model": None,
        "stateKey": None,
        "question": "What changed?",
        "paused": False,
        "pausedReason": None,
        "pausedAt": None,
        "nextAt": next_year,
        "lastAt": None,
    }
    assert listed == {"items": [schedule], "nextCursor": None}
    assert shown == schedule
    changes = {"cron": "@daily", "endAt": None, "overlap": "allow", "nextAt": changed["nextAt"]}
    assert changed == {**schedule, **changes}
    assert changed["nextAt"] < next_year
    assert same == changed
    assert rerun == {**changed, "model": "sonnet", "stateKey": "chat", "question": "Else?"}
    assert paused[0] == {**rerun, "paused": True, "pausedReason": "by_request"} | {
        "pausedAt": paused[0]["pausedAt"],
        "nextAt": None,
    }
    assert paused[1] == paused[0]
    assert while_paused == {**paused[0], "cron": YEARLY}
    assert resumed[0] == resumed[1] == {**rerun, "cron": YEARLY, "nextAt": next_year}
    assert (deleted.status_code, deleted.content) == (204, b"")


@in_shared_world
async def test_what_does_not_exist_is_not_found(tenant: httpx.AsyncClient) -> None:
    body = {"PATCH": {"overlap": "skip"}}
    operations = [("GET", ""), ("GET", "/runs"), ("PATCH", ""), ("DELETE", "")]
    operations += [("POST", f"/{action}") for action in ("pause", "resume", "trigger")]

    for name in ("unknown", "%00", "a b", "x" * 200):
        for method, action in operations:
            answer = await tenant.request(method, f"/v1/schedules/{name}{action}", json=body.get(method))
            assert outcome(answer) == (404, "schedule_not_found"), (method, name, action)


@in_shared_world
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"timeZone": "Mars/Olympus"}, "timeZone"),
        ({"overlap": "kill"}, "overlap"),
        ({"catchUpS": 59}, "catchUpS"),
        ({"catchUpS": 604_801}, "catchUpS"),
        ({"startAt": "9999-12-31T23:59:59Z"}, "startAt"),
        ({"endAt": "2020-01-01T00:00:00Z"}, "endAt"),
        ({"startAt": "2030-01-01T00:00:00Z", "endAt": "2029-01-01T00:00:00Z"}, "endAt"),
        ({"startAt": "2030-02-01T00:00:00Z", "endAt": "2030-03-01T00:00:00Z"}, "endAt"),
        ({"every": "minute"}, "every"),
        ({"run": None}, "run"),
        ({"run": {}}, "run.graphId"),
        ({"run": a_request(runId="mine")}, "run.runId"),
        ({"run": a_request(startAfter="2030-01-01T00:00:00Z")}, "run.startAfter"),
        ({"run": a_request(model="gpt")}, "run.model"),
        ({"run": a_request(toolIds=["core__none"])}, "run.toolIds.0"),
        ({"run": a_request(files=[{"path": "a", "data": "aGk="}])}, "run.files"),
        (
            {"run": a_request(responseFormat={"type": "json_schema", "schema": {"$ref": "#"}})},
            "run.responseFormat.schema",
        ),
    ],
)
async def test_an_invalid_schedule_names_the_field(
    tenant: httpx.AsyncClient, change: dict[str, Any], field: str
) -> None:
    path = await created(tenant, scheduleId="first")
    before = (await tenant.get(path)).json()

    answers = [
        await tenant.post("/v1/schedules", json={**a_body(), **change}),
        await tenant.patch(path, json=change),
    ]

    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert field in [error["field"] for error in answer.json()["errors"]], answer.text
    assert (await tenant.get("/v1/schedules")).json()["items"] == [before]


@in_shared_world
async def test_the_run_must_be_one_that_could_start(tenant: httpx.AsyncClient) -> None:
    history_ = [{"role": role, "content": "x"} for role in ("user", "assistant", "user")]
    system = [{"role": "system", "content": "x"}, {"role": "user", "content": "x"}]

    answers = [
        await tenant.post("/v1/schedules", json=a_body(run=run))
        for run in (
            a_request(graphId="claude_agents:nothing"),
            a_request(messages=system, graphId="claude_agents:analyst"),
            a_request(messages=history_, stateKey="chat"),
            a_request(messages=history_),
        )
    ]

    assert [outcome(answer) for answer in answers] == [
        (404, "graph_not_found"),
        (422, "invalid_request"),
        (422, "invalid_request"),
        (201, None),
    ]
    fields = [answer.json()["errors"][0]["field"] for answer in answers[1:3]]
    assert fields == ["run.messages.0.role", "run.messages"]


@in_shared_world
@pytest.mark.parametrize("field", ["cron", "timeZone", "overlap", "catchUpS", "run"])
async def test_what_every_schedule_has_cannot_be_removed(tenant: httpx.AsyncClient, field: str) -> None:
    answer = await tenant.patch(await created(tenant), json={field: None})

    assert outcome(answer) == (422, "invalid_request")
    assert answer.json()["errors"] == [{"field": field, "message": "must not be null"}]


@in_shared_world
async def test_the_same_request_creates_one_schedule(tenant: httpx.AsyncClient) -> None:
    body = a_body(scheduleId="once")

    answers = await asyncio.gather(*(tenant.post("/v1/schedules", json=body) for _ in range(5)))
    await tenant.patch("/v1/schedules/once", json={"overlap": "allow"})
    again = await tenant.post("/v1/schedules", json=body)
    others = [
        await tenant.post("/v1/schedules", json={**body, **change})
        for change in ({"cron": "@daily"}, {"run": a_request("else")}, {"paused": True}, {"catchUpS": 60})
    ]
    without_id = [await tenant.post("/v1/schedules", json=a_body()) for _ in range(2)]

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["createdAt"] for answer in answers}) == 1
    assert (again.status_code, again.json()["overlap"]) == (201, "allow")
    assert [outcome(answer) for answer in others] == [(409, "schedule_id_taken")] * 4
    assert len({answer.json()["scheduleId"] for answer in without_id}) == 2


async def test_an_account_has_a_limited_number_of_schedules(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_MAX_SCHEDULES_PER_ACCOUNT=3)
    _, key = await world.services.accounts.create_key("other", SCOPES)

    answers = await asyncio.gather(*(world.http.post("/v1/schedules", json=a_body()) for _ in range(6)))
    async with a_client(world.url, key) as other:
        beside = await other.post("/v1/schedules", json=a_body())
    made = [answer.headers["location"] for answer in answers if answer.status_code == 201]
    await world.http.delete(made[0])
    after = await world.http.post("/v1/schedules", json=a_body())

    assert len(made) == 3
    assert {outcome(answer) for answer in answers} == {(201, None), (409, "too_many_schedules")}
    assert (beside.status_code, after.status_code) == (201, 201)


async def test_requests_of_schedules_count_as_storage(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), **ONE_MB)
    large = a_request("x" * 600_000)

    path = await created(world.http, run=large)
    second = await world.http.post("/v1/schedules", json=a_body(run=large))
    small = await created(world.http)
    grown = await world.http.patch(small, json={"run": large})
    same = await world.http.patch(path, json={"run": a_request("y" * 600_000)})
    await world.http.patch(path, json={"run": a_request()})
    after = await world.http.patch(small, json={"run": large})
    await world.http.delete(small)
    freed = await world.http.patch(path, json={"run": large})

    assert [outcome(answer) for answer in (second, grown)] == [(507, "storage_quota")] * 2
    assert [answer.status_code for answer in (same, after, freed)] == [200] * 3


@in_shared_world
async def test_schedules_are_paged_without_gaps(tenant: httpx.AsyncClient) -> None:
    made = [await created(tenant) for _ in range(7)]

    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        params: dict[str, Any] = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = (await tenant.get("/v1/schedules", params=params)).json()
        found += [f"/v1/schedules/{item['scheduleId']}" for item in page["items"]]
        cursor = page["nextCursor"]
    invalid = [
        await tenant.get(path, params={"cursor": "x"}) for path in ("/v1/schedules", f"{made[0]}/runs")
    ]

    assert found == made[::-1]
    assert [outcome(answer) for answer in invalid] == [(422, "invalid_request")] * 2


@in_shared_world
async def test_schedules_of_other_keys_need_the_scope_runs_read(world: World) -> None:
    account = f"keys-{uuid4().hex}"
    async with (
        holder(world, account, "runs:write") as creator,
        holder(world, account, "runs:write") as other,
        holder(world, account, "runs:write", "runs:read") as reader,
        holder(world, account, "runs:read") as watcher,
    ):
        path = await created(creator, scheduleId="theirs")
        own = [
            await creator.patch(path, json={"overlap": "allow"}),
            await creator.post(f"{path}/pause"),
            await creator.post(f"{path}/resume"),
            await creator.post("/v1/schedules", json=a_body(scheduleId="theirs")),
        ]
        refused = [
            await other.patch(path, json={"overlap": "skip"}),
            await other.patch(path, json={"run": a_request("Say all.")}),
            await other.delete(path),
            await other.post("/v1/schedules", json=a_body(scheduleId="theirs")),
            await other.post("/v1/schedules", json=a_body("@daily", scheduleId="theirs")),
            *[await other.post(f"{path}/{action}") for action in ("pause", "resume", "trigger")],
        ]
        shown = (await watcher.get(path)).json()
        changed = await reader.patch(path, json={"overlap": "skip", "run": a_request("Else?")})
        deleted = await reader.delete(path)

    assert [answer.status_code for answer in own] == [200, 200, 200, 201]
    assert [outcome(answer) for answer in refused] == [(403, "forbidden")] * len(refused)
    assert (shown["overlap"], shown["question"]) == ("allow", "What changed?")
    assert (changed.json()["overlap"], changed.json()["question"]) == ("skip", "Else?")
    assert deleted.status_code == 204
