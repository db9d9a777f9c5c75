"""What operators see of all processes on one database: the API, the metrics and `runtally doctor`."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from app.billing.reconciliation.statements.service import ReconciliationStatements
from app.bootstrap.metrics.exposition import database_parts
from app.doctor.fleet import check_fleet
from app.doctor.report import Check
from app.ids import RunId
from app.platform.db import Database
from app.platform.metrics.exposition import Exposition
from app.platform.metrics.families import KnownNames
from app.platform.metrics.registry import MetricsRegistry
from app.runs.commands.service import RunNotFound
from app.runs.dispatch.limits import DispatchLimits
from app.runs.fleet.records import FleetSnapshot, HeldRuns
from app.runs.fleet.repository import fleet_workers, queue_of_accounts
from app.runs.fleet.service import Fleet
from app.runs.recovery.repository import record_takeovers
from app.runs.repository import find_run
from app.runs.requeueing.repository import requeue_run
from tests.architecture.tree import ROOT
from tests.e2e.stories import World
from tests.factories import an_account
from tests.integration.conftest import in_shared_world
from tests.integration.run_queue import Queue
from tests.integration.run_service import OpenCore

ENDED_RUNS = 20_000
KUBERNETES = ROOT / "deploy" / "kubernetes"
NOBODYS_GRAPH = "claude_agents:not_there"
"""Of runs that stay ready: for a minute no worker takes them."""


async def silent_since(worker: Queue, past: str) -> None:
    """Its last heartbeat was so long ago, or will be where it is negative."""
    await worker.execute(
        "UPDATE workers SET seen_at = now() - CAST(:past AS text)::interval WHERE process_id = :process",
        past=past,
        process=worker.process_id,
    )


async def a_fleet(database: Database) -> dict[str, Queue]:
    """Workers in every state, and two accounts with runs in every state."""
    limits = DispatchLimits(100, per_account=4)
    names = ("busy", "idle", "draining", "silent", "ahead", "stopped", "forgotten")
    workers = {name: Queue(database, limits) for name in names}
    for name, worker in workers.items():
        await worker.join(4, version="1.1" if name == "idle" else "1.0", draining=name == "draining")
    acme, umbrella = await an_account(database), await an_account(database, "umbrella")
    busy = workers["busy"]
    for number in range(3):
        await busy.post(acme, f"a{number}")
    await busy.post(acme, "turn-1", chat="chat")
    await busy.claim(3)
    for number in range(2):
        await busy.post(acme, f"limited-{number}")
    await busy.post(acme, "turn-2", chat="chat")
    await busy.post(umbrella, "later", start_after=datetime.now(UTC) + timedelta(hours=1))
    await workers["silent"].post(umbrella, "lost", at_once=True)
    await busy.execute("UPDATE runs SET ready_at = now() - interval '90 s' WHERE run_id = 'turn-1'")
    for name, past in (
        ("silent", "20 s"),
        ("ahead", "-1 hour"),
        ("stopped", "59 min"),
        ("forgotten", "61 min"),
    ):
        await silent_since(workers[name], past)
    return workers


async def test_a_snapshot_has_every_worker_and_every_unfinished_run(database: Database) -> None:
    workers = await a_fleet(database)
    names = {worker.process_id: name for name, worker in workers.items()}

    found = await Fleet(database).snapshot()

    assert {
        names[each.process_id]: (each.state, each.running, each.places_free) for each in found.workers
    } == {
        "busy": ("alive", 3, 1),
        "idle": ("alive", 0, 4),
        "draining": ("draining", 0, 0),
        "silent": ("silent", 1, 0),
        "ahead": ("silent", 0, 0),
        "stopped": ("silent", 0, 0),
    }
    assert (found.places, found.places_free) == (8, 5)
    totals = found.totals
    assert (totals.ready, totals.held, totals.running) == (1, HeldRuns(turn=1, limit=2, start_time=1), 4)
    assert [(each.account, each.ready, each.held, each.running) for each in found.accounts] == [
        ("acme", 1, 3, 3),
        ("umbrella", 0, 1, 1),
    ]
    assert totals.oldest_ready_s == found.accounts[0].oldest_ready_s
    assert totals.oldest_ready_s is not None
    assert 90 <= totals.oldest_ready_s < 150
    assert found.accounts[1].oldest_ready_s is None


async def test_attempts_name_the_processes_that_have_executed_them(database: Database) -> None:
    lost, stopped, last = (Queue(database) for _ in range(3))
    for worker in (lost, stopped, last):
        await worker.join(1, agents={"ready": 1, "parked": 2, "starting": 0, "busy": 1})
    run = (await lost.post(await an_account(database), "r", at_once=True)).key
    for worker, handed_over in ((stopped, False), (last, True)):
        async with database.transaction() as tx:
            record = await find_run(tx, run)
            assert record is not None
            await record_takeovers(tx, [record], handed_over=handed_over)
            assert await requeue_run(tx, run)
        assert await worker.claim() == ["r"]
    executed = await Fleet(database).attempts(run)
    await last.execute("UPDATE runs SET status = 'waiting', attempt = attempt + 1, process_id = NULL")
    parked = await Fleet(database).attempts(run)
    snapshot = await Fleet(database).snapshot()
    resumed_in = "UPDATE runs SET status = 'running', process_id = :process"
    await last.execute(resumed_in, process=stopped.process_id)
    resumed = await Fleet(database).attempts(run)

    assert [(each.process_id, each.handed_over, each.taken_over_at is None) for each in executed] == [
        (lost.process_id, False, False),
        (stopped.process_id, True, False),
        (last.process_id, False, True),
    ]
    assert [(each.attempt, each.process_id) for each in parked[2:]] == [(2, None), (3, None)]
    assert [each.process_id for each in resumed[2:]] == [None, stopped.process_id]
    assert [(each.running, each.waiting) for each in snapshot.accounts] == [(0, 1)]
    assert {each.agents["parked"] for each in snapshot.workers if each.agents} == {2}
    with pytest.raises(RunNotFound):
        await Fleet(database).attempts(run._replace(run_id=RunId("unknown")))


async def test_sums_are_of_all_accounts_however_few_are_listed(database: Database) -> None:
    await a_fleet(database)

    found = await Fleet(database).snapshot(accounts=1)

    assert [each.account for each in found.accounts] == ["acme"]
    assert (found.accounts_omitted, found.totals.accounts, found.totals.running) == (1, 2, 4)


async def test_ended_runs_are_not_read(database: Database) -> None:
    await a_fleet(database)
    async with database.write() as tx:
        await tx.execute(
            text(
                """
                INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request_hash,
                                  process_id, created_at, started_at, ended_at)
                SELECT account_id, 'ended-' || number, api_key_id, graph_id, model, 'succeeded', '',
                       process_id, now(), now(), now()
                  FROM runs, generate_series(1, :ended) AS number WHERE run_id = 'a0'
                """
            ),
            {"ended": ENDED_RUNS},
        )
        await tx.execute(text("ANALYZE runs"))

    scans = text("SELECT seq_scan, seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'runs'")
    async with database.transaction() as tx:
        before = (await tx.execute(scans)).one()
        await queue_of_accounts(tx, limit=100)
        await fleet_workers(tx)
        after = (await tx.execute(scans)).one()

    assert after == before


async def test_only_processes_without_runs_are_forgotten_an_hour_later(
    open_core: OpenCore, database: Database
) -> None:
    workers = await a_fleet(database)
    await silent_since(workers["silent"], "2 hours")
    async with open_core() as core:
        await core.recovery.forget_dead()

    left = {row.process_id for row in await workers["busy"].rows("SELECT process_id FROM workers")}
    assert left >= {worker.process_id for name, worker in workers.items() if name != "forgotten"}
    assert workers["forgotten"].process_id not in left


def checks_of(found: list[Check]) -> list[tuple[str, str]]:
    return [(check.status, check.detail) for check in found]


async def test_the_doctor_reports_what_no_worker_can_execute(database: Database) -> None:
    empty = await check_fleet(database)
    workers = await a_fleet(database)
    of_all = await check_fleet(database)
    for name in ("busy", "idle", "draining"):
        await silent_since(workers[name], "30 s")
    of_none = await check_fleet(database)

    assert checks_of(empty) == [("ok", "no server process is alive; 0 runs ready, 0 held, 0 running")]
    (overview, *problems) = checks_of(of_all)
    alive = "server processes alive: 2 of version 1.0, 1 of version 1.1: 8 places, 5 free"
    waiting = "1 runs ready, 4 held, 4 running; the versions differ: a deployment is not complete"
    assert overview == ("ok", f"{alive}; {waiting}")
    (lost,) = problems
    assert lost[0] == "warning"
    assert lost[1].startswith(f"process {workers['silent'].process_id} has 1 running runs and sent its last")
    statuses = [(status, detail.partition(" ")[0]) for status, detail in checks_of(of_none)]
    assert statuses == [("ok", "no"), ("warning", "1"), ("warning", "process"), ("warning", "process")]
    assert checks_of(await check_fleet(None)) == [("error", "not checked: it needs the database")]


@asynccontextmanager
async def held_runs(world: World) -> AsyncIterator[FleetSnapshot]:
    """A ready run in the world's database that its server does not know how to start, and a held one."""
    queue = Queue(world.services.database)
    key = await queue.an_account(f"tenant-{uuid4().hex}")
    names = [f"run-{uuid4().hex}" for _ in range(2)]
    later = datetime.now(UTC) + timedelta(hours=1)
    try:
        await queue.post(key, names[0], graph=NOBODYS_GRAPH)
        await queue.post(key, names[1], graph=NOBODYS_GRAPH, start_after=later)
        yield await world.services.fleet.snapshot()
    finally:
        for name in names:
            await queue.end(key, name)


@in_shared_world
async def test_operators_see_the_fleet(world: World) -> None:
    async with held_runs(world) as expected:
        found = (await world.http.get("/v1/fleet")).raise_for_status().json()
        few = (await world.http.get("/v1/fleet", params={"limit": 1})).raise_for_status().json()
    refused = [await world.http.get("/v1/fleet", params={"limit": limit}) for limit in (0, 1001)]

    (worker,) = found["workers"]
    assert worker["processId"] == str(expected.workers[0].process_id)
    assert (worker["state"], worker["isAlive"], worker["places"]) == ("alive", True, expected.places)
    fields = "processId role version state isAlive draining places taken running agents leaseS"
    assert set(worker) == {*fields.split(), "startedAt", "lastHeartbeatAt"}
    assert found["totals"] | {"oldestReadySeconds": None} == {
        "places": expected.places,
        "placesFree": expected.places,
        "runsReady": 1,
        "oldestReadySeconds": None,
        "runsHeld": {"turn": 0, "limit": 0, "startTime": 1},
        "runsRunning": 0,
        "runsWaiting": 0,
    }
    assert found["totals"]["oldestReadySeconds"] >= 0
    assert few["accounts"] == [
        found["accounts"][0] | {"oldestReadySeconds": few["accounts"][0]["oldestReadySeconds"]}
    ]
    assert few["accountsOmitted"] == len(found["accounts"]) - 1
    assert [answer.status_code for answer in refused] == [422, 422]


async def database_metrics(world: World) -> dict[tuple[str, ...], float]:
    """What a scrape reads from the database now: each sample by its name and the values of its labels."""
    services = world.services
    parts = database_parts(
        services.fleet,
        services.webhooks,
        ReconciliationStatements(services.database),
        models=KnownNames(),
        max_age_s=0,
        reconciliation_max_age_s=0,
    )
    exposition = Exposition(MetricsRegistry(), parts)
    families = text_string_to_metric_families((await exposition.text()).decode())
    return {
        (sample.name.removeprefix("runtally_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("runtally_")
    }


@in_shared_world
async def test_the_fleet_is_in_the_metrics(world: World) -> None:
    async with held_runs(world) as expected:
        found = await database_metrics(world)

    (worker,) = expected.workers
    age = found.pop(("oldest_ready_seconds",))
    assert 0 < age < 60
    others = ("reconciliation", "webhook")
    assert {name: value for name, value in found.items() if not name[0].startswith(others)} == {
        ("metrics_available", "fleet"): 1,
        ("metrics_available", "webhooks"): 1,
        ("metrics_available", "reconciliation"): 1,
        ("queue_depth",): 2,
        ("runs", "queued"): 2,
        ("runs", "running"): 0,
        ("runs", "waiting"): 0,
        ("runs_ready",): 1,
        ("places",): expected.places,
        ("places_free",): expected.places,
        ("runs_running",): 0,
        ("runs_held", "turn"): 0,
        ("runs_held", "limit"): 0,
        ("runs_held", "start_time"): 1,
        ("workers", "alive", worker.version): 1,
        ("workers", "draining", worker.version): 0,
        ("workers", "silent", worker.version): 0,
    }


async def test_the_scaler_of_kubernetes_counts_active_runs_and_can_read_nothing_else(
    database: Database,
) -> None:
    await a_fleet(database)
    documents = yaml.safe_load_all((KUBERNETES / "keda.yaml").read_text())
    (query,) = [
        each["spec"]["triggers"][0]["metadata"]["query"] for each in documents if "triggers" in each["spec"]
    ]
    # Roles belong to all databases of a server.
    role = f"scaler_{uuid4().hex}"
    script = (KUBERNETES / "scaler-role.sql").read_text().replace("runtally_scaler", role)
    create, grant = [part for part in re.sub("--.*", "", script).split(";") if part.strip()]

    async with database.transaction() as tx:
        await tx.execute(text(create))
        await tx.execute(text(grant))
        await tx.execute(text(f"SET LOCAL ROLE {role}"))
        count = (await tx.execute(text(query))).scalar_one()
        readable = await tx.execute(
            text(
                "SELECT table_name || '.' || column_name FROM information_schema.column_privileges"
                " WHERE grantee = :role"
            ),
            {"role": role},
        )
        columns = set(readable.scalars())
        await tx.execute(text("RESET ROLE"))
        await tx.execute(text(f"DROP OWNED BY {role}"))
        await tx.execute(text(f"DROP ROLE {role}"))

    found = await Fleet(database).snapshot()
    assert count == found.totals.ready + found.totals.running == 5
    assert columns == {"runs.status", "runs.held_for"}
