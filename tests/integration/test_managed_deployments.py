"""Deployments of Managed Agents: schedules whose runs each begin a session."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.requests.attribution import Attributed
from app.requests.principal import SCOPES, Scope
from app.requests.run_request import RunLimits
from app.runs.managed.deployed import session_of
from app.schedules.cron import Timing
from app.schedules.deployments import service
from app.schedules.deployments.records import DeploymentOrder, DeploymentRunFilter
from app.schedules.records import Schedule
from app.schedules.service import DeploymentArchived
from tests.e2e.stories import ASSISTANT, World, a_client
from tests.integration import schedule_server
from tests.integration.conftest import in_shared_world
from tests.integration.run_service import a_request
from tests.integration.statements import rows
from tests.integration.test_http_storage import outcome
from tests.integration.test_managed_sessions import message_of
from tests.patience import PATIENCE_S

PATH = "/managed-agents/v1/deployments"
RUNS = "/managed-agents/v1/deployment_runs"
CRON = {"type": "cron", "expression": "0 0 1 1 *", "timezone": "Asia/Kathmandu"}
BUDGET = {"type": "limit", "max_list_cost": {"amount": "250", "currency": "USD"}}


def says(text: str) -> dict[str, Any]:
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


NEW: dict[str, Any] = {
    "name": "Report",
    "agent": ASSISTANT,
    "environment_id": "env_default",
    "initial_events": [says("What changed?"), says("Be brief.")],
    "schedule": CRON,
}


async def created(http: httpx.AsyncClient, **more: Any) -> Any:
    """A new deployment."""
    answer = await http.post(PATH, json={**NEW, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


@in_shared_world
async def test_a_deployment_is_created_changed_paused_and_archived(tenant: httpx.AsyncClient) -> None:
    first = await created(tenant, description="Daily", metadata={"a": "1", "b": "2"}, budget=BUDGET)
    manual = await created(tenant, schedule=None, agent={"type": "agent", "id": ASSISTANT, "version": 1})
    path = f"{PATH}/{first['id']}"
    shown = (await tenant.get(path)).json()
    schedule = (await tenant.get(f"/v1/schedules/{first['id']}")).json()
    patch = {"metadata": {"a": None, "c": "3"}, "budget": None, "description": None, "schedule": None}
    changed = (await tenant.post(path, json=patch)).json()
    renamed = {"name": "Other", "initial_events": [says("Why?")], "schedule": CRON}
    other = (await tenant.post(path, json=renamed)).json()
    paused = (await tenant.post(f"{path}/pause")).json()
    of_agents = [
        len((await tenant.get(PATH, params={"agent_id": each})).json()["data"]) for each in (ASSISTANT, "x:y")
    ]
    unpaused = (await tenant.post(f"{path}/unpause")).json()
    pages = [(await tenant.get(PATH, params={"limit": 1})).json()]
    pages.append((await tenant.get(PATH, params={"limit": 1, "page": pages[0]["next_page"]})).json())
    archived = [(await tenant.post(f"{path}/archive")).json() for _ in range(2)]
    left = (await tenant.get(PATH)).json()["data"]
    everything = (await tenant.get(PATH, params={"include_archived": True})).json()["data"]
    refused = [await tenant.post(f"{path}{end}", json={}) for end in ("", "/unpause", "/run")]
    refused.append(await tenant.post(f"/v1/schedules/{first['id']}/resume"))
    deleted = await tenant.delete(f"/v1/schedules/{first['id']}")

    assert (first["status"], first["paused_reason"], first["budget"]) == ("active", None, BUDGET)
    assert first["agent"] == {"type": "agent", "id": ASSISTANT, "version": 1}
    assert first["initial_events"] == NEW["initial_events"]
    assert (first["metadata"], first["description"]) == ({"a": "1", "b": "2"}, "Daily")
    upcoming = first["schedule"].pop("upcoming_runs_at")
    assert first["schedule"] == {**CRON, "last_run_at": None}
    assert (len(upcoming), upcoming[0][4:]) == (5, "-12-31T18:15:00Z")
    assert shown == {**first, "schedule": {**first["schedule"], "upcoming_runs_at": upcoming}}
    assert (schedule["cron"], schedule["overlap"], schedule["nextAt"]) == ("0 0 1 1 *", "allow", upcoming[0])
    assert (manual["schedule"], manual["status"]) == (None, "active")
    assert (changed["metadata"], changed["budget"], changed["description"]) == (
        {"b": "2", "c": "3"},
        None,
        None,
    )
    assert (changed["schedule"], changed["initial_events"]) == (None, first["initial_events"])
    assert (other["name"], other["initial_events"]) == ("Other", [says("Why?")])
    assert other["schedule"]["upcoming_runs_at"] == upcoming
    assert (paused["status"], paused["paused_reason"]) == ("paused", {"type": "manual"})
    assert paused["schedule"]["upcoming_runs_at"] == upcoming
    assert of_agents == [2, 0]
    assert (unpaused["status"], unpaused["paused_reason"]) == ("active", None)
    assert [each["id"] for page in pages for each in page["data"]] == [manual["id"], first["id"]]
    assert pages[1]["next_page"] is None
    assert archived[0] == archived[1]
    assert (archived[0]["status"], archived[0]["schedule"]["upcoming_runs_at"]) == ("active", [])
    assert archived[0]["archived_at"] is not None
    assert [each["id"] for each in left] == [manual["id"]]
    assert [each["id"] for each in everything] == [manual["id"], first["id"]]
    assert [each.status_code for each in refused] == [409] * 4
    assert deleted.status_code == 204
    assert message_of(await tenant.get(path))[:2] == (404, "not_found_error")


@in_shared_world
async def test_a_deployment_is_created_once_with_a_key(tenant: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "one"}

    at_once = await asyncio.gather(*(tenant.post(PATH, json=NEW, headers=key) for _ in range(3)))
    (made,) = {answer.json()["id"] for answer in at_once}
    await tenant.post(f"{PATH}/{made}/archive")
    later = await tenant.post(PATH, json=NEW, headers=key)
    another = await tenant.post(PATH, json={**NEW, "name": "Other"}, headers=key)

    assert (later.json()["id"], later.json()["archived_at"] is None) == (made, False)
    assert (another.status_code, "Idempotency-Key" in another.text) == (409, True)
    shown = (await tenant.get(PATH, params={"include_archived": True})).json()["data"]
    assert [each["id"] for each in shown] == [made]


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
WRONG: dict[str, dict[str, Any]] = {
    "agent": {"agent": None},
    "name": {"name": ""},
    "schedule.expression": {"schedule": {**CRON, "expression": "* * *"}},
    "schedule.timezone": {"schedule": {**CRON, "timezone": "Mars"}},
    "environment_id": {"environment_id": "env_other"},
    "initial_events": {"initial_events": []},
    "initial_events: must hold": {"initial_events": [says(" ")]},
    "initial_events: must not have more": {"initial_events": [says("x" * 20_000), says("x" * 20_000)]},
    "agent: must be an executor": {"agent": "agent_1"},
    "initial_events.0.content.0.text": {"initial_events": [says("a\x00b")]},
    "initial_events.0.type": {"initial_events": [{"type": "user.define_outcome", "description": "x"}]},
    "initial_events.0.content.0": {"initial_events": [{"type": "user.message", "content": [IMAGE]}]},
    "resources": {"resources": [{"type": "file", "file_id": "x"}]},
    "vault_ids": {"vault_ids": ["vlt_1"]},
    "budget.max_list_cost.amount": {
        "budget": {"type": "limit", "max_list_cost": {"amount": "0.5", "currency": "USD"}}
    },
    "metadata": {"metadata": {"a": "x" * 513}},
    "retries": {"retries": 3},
}


@in_shared_world
@pytest.mark.parametrize("field", WRONG)
async def test_a_deployment_that_cannot_be_is_refused_by_its_field(
    tenant: httpx.AsyncClient, field: str
) -> None:
    status, kind, message = message_of(await tenant.post(PATH, json={**NEW, **WRONG[field]}))

    assert (status, kind) == (400, "invalid_request_error"), message
    assert message.startswith(field)
    assert (await tenant.get(PATH)).json()["data"] == []


@in_shared_world
async def test_what_is_no_deployment_and_what_cannot_be_asked_is_refused(tenant: httpx.AsyncClient) -> None:
    run = {"graphId": ASSISTANT, "messages": [{"role": "user", "content": "hi"}]}
    body = {"scheduleId": "plain", "cron": "0 0 1 1 *", "run": run}
    (await tenant.post("/v1/schedules", json=body)).raise_for_status()
    deployment = await created(tenant)
    unknown = [await tenant.post(f"{PATH}/plain{end}", json={}) for end in ("", "/pause", "/run", "/archive")]
    unknown += [await tenant.get(f"{RUNS}/drun_{uuid4()}"), await tenant.get(f"{RUNS}/x")]
    unknown.append(await tenant.post(PATH, json={**NEW, "agent": "messages:none"}))
    invalid = {
        "status": await tenant.get(PATH, params={"status": "paused"}),
        "page": await tenant.get(PATH, params={"page": "x"}),
        "order": await tenant.get(RUNS, params={"order": "asc"}),
        "name": await tenant.post(f"{PATH}/{deployment['id']}", json={"name": None}),
    }
    schedule = f"/v1/schedules/{deployment['id']}"
    others = [await tenant.patch(schedule, json=each) for each in ({"run": run}, {"cron": "@daily"})]
    skipping = await tenant.patch(schedule, json={"overlap": "skip"})
    plain = (await tenant.get("/v1/schedules/plain")).json()

    assert [message_of(each)[:2] for each in unknown] == [(404, "not_found_error")] * 7
    assert plain["paused"] is False
    assert {field: message_of(each)[0] for field, each in invalid.items()} == dict.fromkeys(invalid, 400)
    assert all(field in message_of(each)[2] for field, each in invalid.items())
    assert [outcome(each) for each in others] == [(409, "schedule_of_deployment")] * 2
    assert skipping.json()["overlap"] == "skip"


@in_shared_world
async def test_deployments_of_other_keys_are_changed_by_those_who_may_read_them(world: World) -> None:
    account = f"tenant-{uuid4().hex}"

    async def key(scopes: Sequence[Scope]) -> str:
        return (await world.services.accounts.create_key(account, scopes))[1]

    tenant = [scope for scope in SCOPES if scope != "admin"]
    async with a_client(world.url, await key(tenant)) as owner:
        deployment = await created(owner)
        path = f"{PATH}/{deployment['id']}"
        async with a_client(world.url, await key(["runs:write"])) as writer:
            foreign = [
                await writer.post(f"{path}{end}", json={})
                for end in ("", "/pause", "/unpause", "/run", "/archive")
            ]
            own = await created(writer)
            paused = await writer.post(f"{PATH}/{own['id']}/pause")
        async with a_client(world.url, await key(["runs:write", "runs:read"])) as reader:
            renamed = await reader.post(path, json={"name": "Mine"})
        kept = (await owner.get(path)).json()

    assert [message_of(each)[0] for each in foreign] == [403] * 5
    assert paused.json()["status"] == "paused"
    assert renamed.status_code == 200
    assert (kept["name"], kept["status"]) == ("Mine", "active")


def an_order(cron: str = "* * * * *", name: str = "Report", **fields: Any) -> DeploymentOrder:
    return DeploymentOrder({"name": name}, Timing(cron), a_request(prompt="Report!", **fields))


async def decided(
    server: schedule_server.ScheduleServer, deployed: Schedule | None = None
) -> list[tuple[str, str]]:
    """The runs of deployments, oldest first: their ids and outcomes."""
    chosen = DeploymentRunFilter(deployment_id=None if deployed is None else deployed.schedule_id)
    found, _ = await service.Deployments(server.service).runs(server.owner, chosen, PageRequest(100))
    return [(each.due.run_id, each.due.outcome) for each in reversed(found)]


async def test_each_due_time_begins_one_session_whose_budget_is_its_own(
    open_server: schedule_server.OpenServer, database: Database
) -> None:
    limits = RunLimits.of(max_budget_usd=Decimal("2.50"), cover_calls=True)
    metadata = Attributed.of(metadata={"team": "a"}).metadata
    go_on = asyncio.Event()
    async with open_server(schedule_server.waits_for(go_on)) as server, open_server() as second:
        deployments = service.Deployments(server.service)
        deployed = await deployments.create(
            server.owner, an_order(limits=limits, metadata=metadata), request_id=None
        )
        for minute in (1, 2):
            server.clock.now = second.clock.now = schedule_server.NOON + minute * schedule_server.MINUTE
            await asyncio.gather(server.pass_once(), second.pass_once())
        # The first one is still at work: sessions do not wait for each other.
        runs = await server.runs()
        go_on.set()
        await server.ended()
        await second.ended()
        outcomes = await decided(server, deployed)
    sessions = await rows(
        database,
        "SELECT state_key, title, managed, deployment_id, turns FROM sessions ORDER BY created_at, state_key",
    )

    assert [outcome for _, outcome in outcomes] == ["started", "started"]
    assert {run.key.run_id for run in runs} == {run_id for run_id, _ in outcomes}
    assert {run.state_key for run in runs} == {session_of(run_id) for run_id, _ in outcomes}
    assert {row.state_key for row in sessions} == {run.state_key for run in runs}
    assert [row.turns for row in sessions] == [1, 1]
    assert {(row.deployment_id, row.title) for row in sessions} == {(deployed.schedule_id, "Report!")}
    settings = sessions[0].managed
    assert (settings["budgetUsd"], settings["metadata"]) == ("2.50", {"team": "a"})
    assert settings["apiKeyId"] == str(deployed.api_key_id)


async def test_a_start_that_is_repeated_begins_no_second_session(
    open_server: schedule_server.OpenServer, database: Database
) -> None:
    async with open_server() as server:
        deployed = await service.Deployments(server.service).create(server.owner, an_order(), request_id=None)
        server.clock.now = schedule_server.NOON + schedule_server.MINUTE
        (claimed,) = await server.firing.take(deployed.id) or []
        await server.firing._start_run(claimed)
        await server.firing.start(claimed)
        await server.ended()
        outcomes = await decided(server)
    sessions = await rows(database, "SELECT state_key FROM sessions")

    assert [outcome for _, outcome in outcomes] == ["started"]
    assert [row.state_key for row in sessions] == [session_of(outcomes[0][0])]


async def test_a_refused_due_time_leaves_no_session_and_says_why(
    open_server: schedule_server.OpenServer, database: Database
) -> None:
    async with open_server() as server:
        deployments = service.Deployments(server.service)
        deployed = await deployments.create(server.owner, an_order(), request_id=None)
        await server.core.process.ledger.change_mode(server.owner.account_id, "prepaid")
        await server.at(schedule_server.NOON + schedule_server.MINUTE)
        found, _ = await deployments.runs(server.owner, DeploymentRunFilter(has_error=True), PageRequest(10))
        none, _ = await deployments.runs(server.owner, DeploymentRunFilter(has_error=False), PageRequest(10))
        one = await deployments.find_run(server.owner, found[0].due.run_id)
    sessions = await rows(database, "SELECT state_key FROM sessions")

    assert [(each.due.outcome, each.due.error) for each in found] == [("refused", "insufficient_credits")]
    assert (none, list(sessions)) == ([], [])
    assert one == found[0]
    assert one.deployment_id == deployed.schedule_id


async def test_one_without_a_schedule_is_run_by_clients_only(open_server: schedule_server.OpenServer) -> None:
    async with open_server() as server:
        deployments = service.Deployments(server.service)
        deployed = await deployments.create(server.owner, an_order(""), request_id=None)
        name = deployed.schedule_id
        await server.at(schedule_server.NOON + timedelta(days=400))
        run = await deployments.run(server.owner, name)
        await server.service.pause(server.owner, name)
        paused = await deployments.run(server.owner, name)
        resumed = await server.service.resume(server.owner, name)
        await server.ended()
        outcomes = await decided(server)

    assert (deployed.next_at, resumed.next_at) == (None, None)
    assert [run.due.trigger, paused.due.trigger] == ["request", "request"]
    assert outcomes == [(run.due.run_id, "started"), (paused.due.run_id, "started")]


async def test_a_session_that_cannot_begin_for_the_moment_is_begun_later(
    open_server: schedule_server.OpenServer,
) -> None:
    go_on = asyncio.Event()
    async with open_server(schedule_server.waits_for(go_on), places=1, queued=0) as server:
        deployments = service.Deployments(server.service)
        deployed = await deployments.create(server.owner, an_order(""), request_id=None)
        name = deployed.schedule_id
        await deployments.run(server.owner, name)
        with pytest.raises(service.SessionDelayed):
            await deployments.run(server.owner, name)
        before = await decided(server)
        go_on.set()
        await server.ended()
        await server.at(schedule_server.NOON + schedule_server.MINUTE)
        await server.ended()
        after = await decided(server)

    assert [outcome for _, outcome in before] == ["started"]
    assert [outcome for _, outcome in after] == ["started", "started"]


class MeetingClock(schedule_server.SetClock):
    """Those who read it first wait for each other, if there is somewhere to meet."""

    meeting: asyncio.Barrier | None = None

    async def read(self) -> datetime:
        if self.meeting is not None:
            async with asyncio.timeout(PATIENCE_S):
                await self.meeting.wait()
            self.meeting = None
        return self.now


async def test_an_archived_one_begins_nothing_and_two_changes_at_once_are_one(
    open_server: schedule_server.OpenServer,
) -> None:
    clock = MeetingClock()
    async with open_server(clock=clock) as server:
        deployments = service.Deployments(server.service)
        deployed = await deployments.create(server.owner, an_order(), request_id=None)
        name = deployed.schedule_id

        async def renamed(name_: str) -> Schedule:
            def change(_posted: object) -> DeploymentOrder:
                clock.go_on(timedelta(seconds=1))
                return an_order(name=name_)

            return await deployments.change(server.owner, name, change)

        clock.meeting = asyncio.Barrier(2)
        results = await asyncio.gather(*map(renamed, ("One", "Two")), return_exceptions=True)
        await server.service.archive(server.owner, name)
        await server.at(schedule_server.NOON + 10 * schedule_server.MINUTE)
        with pytest.raises(DeploymentArchived):
            await deployments.run(server.owner, name)
        outcomes = await decided(server)

    changed = [each for each in results if isinstance(each, Schedule)]
    assert len(changed) == 1
    assert [type(each) for each in results if not isinstance(each, Schedule)] == [service.DeploymentChanged]
    assert outcomes == []
