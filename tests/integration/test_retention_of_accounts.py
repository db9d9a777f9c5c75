"""Accounts keep contents for a time of their own, within that of the deployment; receipts stay."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from anyio import fail_after, to_thread
from sqlalchemy import text
from typer.testing import CliRunner

from app.auth.account_retention import AccountRetention
from app.auth.records import KeyRecord
from app.cli.main import app
from app.errors import Invalid
from app.events import TextDelta
from app.ids import RunId, RunKey, new_uuid
from app.platform.clock.clock import Clock, host_time
from app.platform.db import Database
from app.platform.storage.records import KEPT_FOR_EVER, Retention
from app.platform.storage.service import StorageQuota
from app.runs.deletion.repository import lock_runs_with_old_evidence
from app.runs.deletion.service import RunDeletion
from app.runs.events.codec import encode_events
from app.runs.events.terminal import with_positions
from app.runs.evidence.records import NewEvidence
from app.runs.evidence.repository import insert_evidence
from app.runs.records import NewRun
from app.runs.repository import finish_run
from app.workspaces.service import Workspaces
from app.workspaces.spec import WorkspaceSpec
from tests.e2e.stories import World
from tests.factories import a_final, an_account
from tests.integration.conftest import in_shared_world
from tests.integration.conversations import a_turn, conversations_over
from tests.integration.run_process import insert
from tests.integration.statements import execute, rows
from tests.integration.test_waiting_runs import a_call, execute_elsewhere, park
from tests.integration.webhook_seam import charge
from tests.patience import PATIENCE_S

DAYS = (1, 5, 20)
EVERYTHING = """
    SELECT account.name, run_id, request IS NOT NULL AS has_request,
           EXISTS (SELECT FROM run_events AS kept WHERE kept.run_id = runs.run_id) AS has_events,
           EXISTS (SELECT FROM run_evidence AS kept WHERE kept.run_id = runs.run_id) AS has_evidence,
           EXISTS (SELECT FROM workspace_files AS kept WHERE kept.run_id = runs.run_id) AS has_files
      FROM runs JOIN accounts AS account ON account.id = account_id ORDER BY run_id
"""


async def an_old_run(database: Database, key: KeyRecord, name: str, *, days: int) -> RunKey:
    """A run with all that is kept of one, which ended so many days ago."""
    run = RunKey(key.account_id, RunId(name))
    new = NewRun(run, key.id, "claude_agents:assistant", "m", "{}", "what?", b"", None, new_uuid())
    async with database.transaction() as tx:
        await insert(tx, new)
        await Workspaces(database, ()).reserve(tx, run, WorkspaceSpec(keep_s=30 * 86_400), {"a.txt": b"a"})
        await insert_evidence(tx, run, [NewEvidence(n, datetime.now(UTC), "prompt", "{}") for n in (1, 2)])
        events = encode_events(with_positions([TextDelta(message_id="m", delta="x")], after=0))
        await finish_run(tx, run, attempt=0, final=a_final(name), report=None, events=events)
    await execute(
        database,
        f"UPDATE runs SET ended_at = now() - interval '{days} days' WHERE run_id = '{name}'",  # noqa: S608
        f"UPDATE run_evidence SET at = now() - interval '{days} days' WHERE run_id = '{name}'",  # noqa: S608
    )
    return run


async def sweep(
    database: Database, by_default: Retention = KEPT_FOR_EVER, *, clock: Clock | None = None
) -> list[int]:
    """What servers do every minute; how much each part has deleted."""
    conversations, storage = conversations_over(database), StorageQuota(database, None)
    clock = clock or Clock()
    contents = RunDeletion(database, storage, conversations.delete_unused, by_default, clock)
    files = Workspaces(database, (), clock=clock)
    return [
        await contents.delete_old(),
        await contents.delete_old_events(),
        await contents.delete_old_evidence(),
        await contents.delete_old_conversations(),
        await files.delete_expired_files(),
    ]


async def kept(database: Database) -> dict[str, str]:
    """What is kept of each run: request, events, evidence, files."""
    found = await rows(database, EVERYTHING)
    marks = ("has_request", "has_events", "has_evidence", "has_files")
    return {
        row.run_id: "".join("rexf"[n] for n, mark in enumerate(marks) if getattr(row, mark)) for row in found
    }


async def two_accounts(database: Database, **days: int | None) -> tuple[KeyRecord, KeyRecord]:
    """One keeps for these days, the other as by default; each has runs of several ages."""
    strict, other = await an_account(database, "strict"), await an_account(database, "other")
    await AccountRetention(database, KEPT_FOR_EVER).change(strict.account_id, days)
    for key, name in ((strict, "s"), (other, "o")):
        for age in DAYS:
            await an_old_run(database, key, f"{name}{age}", days=age)
    return strict, other


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        ("contents_days", {"s1": "rexf", "s5": "", "s20": ""}),
        ("events_days", {"s1": "rexf", "s5": "rxf", "s20": "rxf"}),
        ("evidence_days", {"s1": "rexf", "s5": "ref", "s20": "ref"}),
        ("workspaces_days", {"s1": "rexf", "s5": "rex", "s20": "rex"}),
        ("transcripts_days", {"s1": "rexf", "s5": "rexf", "s20": "rexf"}),
    ],
)
async def test_each_kind_has_a_time_of_its_own_and_other_accounts_keep_theirs(
    database: Database, kind: str, left: dict[str, str]
) -> None:
    strict, _ = await two_accounts(database, **{kind: 3})
    await charge(database, strict, "msg_1")

    deleted = await sweep(database)
    again = await sweep(database)

    assert await kept(database) == {**left, **{f"o{age}": "rexf" for age in DAYS}}
    assert sum(deleted) == (0 if kind == "transcripts_days" else 2)
    assert again == [0] * 5
    (receipts,) = await rows(database, "SELECT count(*) AS number FROM charge_receipts")
    assert receipts.number == 1


async def test_a_database_whose_clock_has_jumped_forward_deletes_nothing_early(database: Database) -> None:
    """By the server's clock, all of it has just ended, and the conversation was just used."""
    strict, other = await two_accounts(database, evidence_days=3, workspaces_days=3)
    await AccountRetention(database, KEPT_FOR_EVER).change(other.account_id, {"contents_days": 3})
    await a_turn(database, strict, "turn")
    await execute(database, "UPDATE sessions SET updated_at = now() - interval '20 days'")
    by_default = Retention(events_days=3, transcripts_days=3)

    early = await sweep(database, by_default, clock=Clock(lambda: host_time() - timedelta(days=20)))
    later = await sweep(database, by_default)

    assert (early, all(later)) == ([0] * 5, True)


async def test_whatever_is_shorter_counts(database: Database) -> None:
    """Also where the deployment keeps for less than it did when the account's days were set."""
    await two_accounts(database, contents_days=10, events_days=3)

    await sweep(database, Retention(contents_days=15, events_days=7))

    assert await kept(database) == {
        "s1": "rexf",
        "s5": "rxf",
        "s20": "",
        "o1": "rexf",
        "o5": "rexf",
        "o20": "",
    }


async def test_days_that_are_withdrawn_or_raised_delete_nothing(database: Database) -> None:
    strict, _ = await two_accounts(database, contents_days=3, events_days=3, evidence_days=3)
    retention = AccountRetention(database, KEPT_FOR_EVER)
    await retention.change(strict.account_id, {"contents_days": None, "events_days": 30})
    account = await retention.change(strict.account_id, {"evidence_days": None})

    await sweep(database)

    assert account.retention == Retention(events_days=30)
    assert set((await kept(database)).values()) == {"rexf"}


async def test_a_conversation_is_deleted_with_its_runs_unless_one_of_them_waits(database: Database) -> None:
    strict, other = await an_account(database, "strict"), await an_account(database, "other")
    parked = await an_account(database, "parked")
    for key in (strict, parked):
        await AccountRetention(database, KEPT_FOR_EVER).change(
            key.account_id, {"transcripts_days": 3, "contents_days": 3}
        )
    for key in (strict, other):
        await a_turn(database, key, f"run-of-{key.account}")
    await a_turn(database, parked, "waiting", ended=False)
    waiting = RunKey(parked.account_id, RunId("waiting"))
    await execute_elsewhere(database, waiting)
    await park(database, waiting, a_call("toolu_1"))
    await execute(database, "UPDATE sessions SET updated_at = now() - interval '4 days'")

    deleted = await sweep(database)

    left = await rows(
        database,
        "SELECT name, runs.status, request IS NOT NULL AS has_request FROM sessions"
        " JOIN accounts ON accounts.id = account_id JOIN runs USING (account_id, state_key) ORDER BY name",
    )
    assert [tuple(row) for row in left] == [("other", "succeeded", True), ("parked", "waiting", True)]
    assert deleted[3] == 1


async def test_a_sweep_deletes_more_than_one_batch_of_some_accounts_and_reads_what_is_left(
    database: Database,
) -> None:
    keys = [await an_account(database, name) for name in ("a", "b")]
    for key in keys:
        await AccountRetention(database, KEPT_FOR_EVER).change(key.account_id, {"evidence_days": 1})
        for number in range(12):
            await an_old_run(database, key, f"{key.account}{number}", days=2)
    deleted = [(await sweep(database))[2] for _ in range(3)]
    await execute(
        database,
        """
        INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request_hash, created_at,
                          ended_at)
        SELECT account_id, 'swept-' || number, api_key_id, graph_id, model, 'succeeded', '', now(),
               now() - interval '9 days'
          FROM runs, generate_series(1, 20000) AS number WHERE run_id = 'a0'
        """,
        "ANALYZE runs",
    )

    read = text(
        "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables WHERE relname = 'runs'"
    )
    async with database.transaction() as tx:
        before = (await tx.execute(read)).scalar_one()
        assert await lock_runs_with_old_evidence(tx, until=host_time(), most=20) == []
        assert (await tx.execute(read)).scalar_one() - before <= 50
    assert deleted == [20, 4, 0]


async def test_no_account_keeps_for_longer_than_the_deployment(database: Database) -> None:
    key = await an_account(database)
    retention = AccountRetention(database, Retention(contents_days=30, events_days=7))

    for kind, days, field in (
        ("contents_days", 31, "retention.contentsDays: must be at most 30"),
        ("events_days", 8, "retention.eventsDays: must be at most 7"),
    ):
        with pytest.raises(Invalid, match=field):
            await retention.change(key.account_id, {kind: days})
    changed = await retention.change(
        key.account_id, {"contents_days": 30, "events_days": 7, "transcripts_days": 400}
    )

    assert changed.retention == Retention(contents_days=30, events_days=7, transcripts_days=400)


async def a_new_account(world: World) -> str:
    name = f"tenant-{uuid4().hex}"
    (await world.http.post("/v1/accounts", json={"name": name})).raise_for_status()
    return f"/v1/accounts/{name}"


@in_shared_world
async def test_an_operator_sets_days_over_http(world: World) -> None:
    one, other = [await a_new_account(world) for _ in range(2)]
    nothing = dict.fromkeys(
        ["contentsDays", "eventsDays", "transcriptsDays", "workspacesDays", "evidenceDays"], None
    )

    set_ = await world.http.patch(one, json={"retention": {"contentsDays": 30, "eventsDays": 7}})
    changed = await world.http.patch(one, json={"retention": {"eventsDays": None, "evidenceDays": 90}})
    same = await world.http.patch(one, json={"retention": {}})
    shown = [(await world.http.get(path)).json()["retention"] for path in (one, other)]
    audit = await world.http.get("/v1/audit", params={"account": one.rpartition("/")[2]})

    assert set_.json()["retention"] == {**nothing, "contentsDays": 30, "eventsDays": 7}
    assert changed.json()["retention"] == same.json()["retention"]
    assert shown == [{**nothing, "contentsDays": 30, "evidenceDays": 90}, nothing]
    entries = [each for each in audit.json()["items"] if each["action"] == "account.retention_set"]
    assert [(each["before"], each["after"]) for each in reversed(entries)] == [
        ({}, {"contents_days": 30, "events_days": 7}),
        ({"contents_days": 30, "events_days": 7}, {"contents_days": 30, "evidence_days": 90}),
    ]


@in_shared_world
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "retention"),
        (7, "retention"),
        ({"eventsDays": 0}, "retention.eventsDays"),
        ({"eventsDays": 36_501}, "retention.eventsDays"),
        ({"eventsDays": "7"}, "retention.eventsDays"),
        ({"receiptsDays": 7}, "retention.receiptsDays"),
        ({"events_days": 7}, "retention.events_days"),
    ],
)
async def test_what_is_no_number_of_days_is_refused_by_its_field(world: World, body: Any, field: str) -> None:
    path = await a_new_account(world)

    refused = await world.http.patch(path, json={"retention": body, "name": "changed"})

    assert (refused.status_code, [error["field"] for error in refused.json()["errors"]]) == (422, [field])
    assert (await world.http.get(path)).status_code == 200


async def test_a_command_sets_and_shows_days(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("RUNTALLY_EVENTS_RETENTION_DAYS", "60")
    await an_account(database)

    async def printed(*arguments: str, code: int = 0) -> str:
        with fail_after(PATIENCE_S):
            command: Sequence[str] = ("accounts", "retention", "acme", *arguments)
            result = await to_thread.run_sync(CliRunner().invoke, app, command)
        assert result.exit_code == code, result.output
        return result.output

    set_ = json.loads(await printed("--contents", "30", "--workspaces", "2", "--json"))
    shown = await printed("--contents", "default", "--events", "7")
    too_long = await printed("--events", "61", code=2)
    wrong = await printed("--events", "many", code=2)

    assert set_[0]["retention"]["contentsDays"] == 30
    assert dict(line.split() for line in shown.splitlines()[1:]) == {
        "contents": "default",
        "events": "7",
        "transcripts": "default",
        "workspaces": "2",
        "evidence": "default",
    }
    assert "retention.eventsDays: must be at most 60" in too_long
    assert "Invalid value for --events" in wrong
    assert await printed() == shown
