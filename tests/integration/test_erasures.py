"""Erasures of end users: what stays on receipts and in the chain, and who may begin one."""

import asyncio
import io
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.chain.verification import verify
from app.billing.prices.price_list import Charge
from app.billing.pseudonyms.service import erase_from_receipts, forget
from app.billing.receipts.journal import Journal
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.audit.records import SERVER
from app.platform.db import Database, StatementFailed
from app.requests.attribution import KeyLabels, RunLabels
from app.requests.principal import SCOPES
from app.runs.conversations.opened import create_conversation
from app.runs.conversations.records import Opening
from app.runs.erasure.repository import is_erased
from app.runs.erasure.service import Erasures
from app.runs.managed.records import SessionSettings
from app.runs.records import NewRun
from app.schedules.repository import delete_schedules_for
from app.simulator.script import Hold, Reply, Text, in_turn
from app.streams.memory import MemoryEventLog
from app.usage.records import Attribution
from app.webhooks.service import erase_from_deliveries
from tests.e2e.agents import without_cli
from tests.e2e.searching import in_files, in_tables
from tests.e2e.stories import KEY, WorldOf, a_client, a_request
from tests.e2e.test_an_end_user_is_erased import erased
from tests.factories import a_fact
from tests.integration.conversations import conversations_over, end_run
from tests.integration.run_process import insert
from tests.integration.statements import execute, rows, scalar, until

GRAPH = "messages:assistant"


def a_receipt(key: KeyRecord, message: str, end_user: str | None, *, run: str = "run-1") -> NewReceipt:
    by = Attribution(key.id, GRAPH, None, end_user, {"team": "search"})
    return NewReceipt.of(
        replace(a_fact(key, message, run), attribution=by), Charge(Decimal(1), 10, "test"), "final"
    )


async def charge(database: Database, *receipts: NewReceipt) -> None:
    async with database.transaction() as tx:
        await insert_receipts(tx, receipts)


async def names(database: Database) -> dict[str | None, int]:
    found = await rows(database, "SELECT end_user, count(*) FROM charge_receipts GROUP BY end_user")
    return {row.end_user: row.count for row in found}


async def findings(database: Database) -> list[str]:
    proved = await verify(database, {})
    return [each for each in proved.findings if "root" not in each]


async def test_receipts_and_sums_lose_the_name_and_the_chain_still_proves_them(
    database: Database, key: KeyRecord
) -> None:
    given = ["ann"] * 5 + ["bob"] * 2 + [None]
    await charge(database, *[a_receipt(key, f"{n}", end_user) for n, end_user in enumerate(given)])
    steps = []
    async with database.transaction() as tx:
        # In parts, as a job does.
        while erased_now := await erase_from_receipts(tx, key.account_id, "ann", most=2):
            steps.append(erased_now)
            kept = await forget(tx, key.account_id, "ann")

    (hashed,) = {name for name in await names(database) if name and name.startswith("~")}
    sums = await rows(
        database, "SELECT value, receipts, charged_credits FROM labelled_rollups WHERE label = 'endUser'"
    )
    assert (steps, kept) == ([2, 2, 1], hashed)
    assert await names(database) == {hashed: 5, "bob": 2, None: 1}
    assert {tuple(row) for row in sums} == {(hashed, 5, 50), ("bob", 2, 20)}
    assert await findings(database) == []
    assert [row.end_user for row in await rows(database, "SELECT end_user FROM end_user_salts")] == ["bob"]
    assert await scalar(database, "SELECT count(*) FROM chain_links WHERE content LIKE '%ann%'") == 0
    # The same name is another one from now on.
    await charge(database, a_receipt(key, "back", "ann"))
    assert await findings(database) == []
    assert hashed not in str(
        await rows(database, "SELECT end_user_hash(account_id, 'ann') FROM end_user_salts")
    )


@pytest.mark.parametrize(
    "change",
    [
        "end_user = 'bob'",
        "end_user = NULL",
        "end_user = '~0'",
        "end_user = end_user_hash(account_id, end_user), charged_credits = 0",
        "end_user = end_user_hash(account_id, 'bob')",
        "tags = NULL",
    ],
)
async def test_nothing_else_of_a_receipt_can_be_changed(
    database: Database, key: KeyRecord, change: str
) -> None:
    await charge(database, a_receipt(key, "1", "ann"))

    with pytest.raises(StatementFailed, match="never changed or deleted"):
        await execute(database, f"UPDATE charge_receipts SET {change}")  # noqa: S608


@pytest.mark.parametrize("now", ["'bob'", "NULL", "'~' || repeat('0', 64)"])
async def test_another_name_on_a_receipt_is_found(database: Database, key: KeyRecord, now: str) -> None:
    await charge(database, a_receipt(key, "1", "ann"), a_receipt(key, "2", "bob"))

    await execute(
        database,
        "ALTER TABLE charge_receipts DISABLE TRIGGER USER",
        f"UPDATE charge_receipts SET end_user = {now} WHERE end_user = 'ann'",  # noqa: S608
    )

    assert any("end_user of the receipt" in each for each in await findings(database))


async def test_a_receipt_that_comes_after_the_erasure_has_the_name_of_its_run(
    database: Database, key: KeyRecord
) -> None:
    run = RunKey(key.account_id, RunId("late"))
    new = NewRun(run, key.id, GRAPH, "m", "{}", "what?", b"", None, new_uuid(), labels=RunLabels("ann"))
    async with database.transaction() as tx:
        await insert(tx, new)
    await execute(database, "UPDATE runs SET end_user = end_user_hash(account_id, end_user)")

    await charge(database, a_receipt(key, "late", "ann", run="late"))

    (name,) = await names(database)
    assert name is not None
    assert name.startswith("~")
    assert await findings(database) == []


async def test_it_does_not_end_while_an_older_transaction_may_store_a_receipt(
    database: Database, key: KeyRecord
) -> None:
    job = await started_with_a_run(database, key)
    async with database.transaction() as older:
        await older.execute(text("SELECT pg_current_xact_id()"))
        working = asyncio.create_task(job.erasures.work())
        await until(lambda: is_counted(job))
        async with database.transaction() as tx:
            early = await is_erased(tx, await job.erasures.get(key.account_id, job.id))
    await until(lambda: has_ended(job))
    working.cancel()
    await asyncio.wait([working])

    assert not early
    found = await rows(database, "SELECT end_user, changed_by > 0 FROM erasures")
    assert [tuple(row) for row in found] == [(None, True)]


class Started(NamedTuple):
    """An erasure of an end user who has a run that has ended."""

    erasures: Erasures
    account_id: AccountId
    id: UUID


async def started_with_a_run(database: Database, key: KeyRecord) -> Started:
    run = RunKey(key.account_id, RunId("old"))
    new = NewRun(run, key.id, GRAPH, "m", "{}", "what?", b"", None, new_uuid(), labels=RunLabels("ann"))
    async with database.transaction() as tx:
        await insert(tx, new)
    await end_run(database, run)

    async def deliver_cancels(_runs: Sequence[RunKey]) -> None:
        pass

    erasures = Erasures(
        *(database, MemoryEventLog(), conversations_over(database), [delete_schedules_for], deliver_cancels),
        erase_from_deliveries,
    )
    return Started(erasures, key.account_id, (await erasures.start(key.account_id, "ann", by=SERVER)).id)


async def is_counted(job: Started) -> bool:
    return (await job.erasures.get(job.account_id, job.id)).runs == 1


async def has_ended(job: Started) -> bool:
    return (await job.erasures.get(job.account_id, job.id)).ended_at is not None


async def test_a_journal_keeps_nothing_of_what_is_stored(key: KeyRecord, tmp_path: Path) -> None:
    by = Attribution(key.id, GRAPH, None, "heron4711", None)
    kept, stored = (replace(a_fact(key, message), attribution=by) for message in ("kept", "stored"))
    journal = Journal(tmp_path, new_uuid())
    journal.complete_message(stored)
    journal.renew()
    journal.complete_message(kept)
    before = in_files(tmp_path, ["heron4711", "stored"])
    journal.acknowledge([stored.key])
    journal.renew()
    after = in_files(tmp_path, ["heron4711", '"stored"'])
    journal.acknowledge([kept.key])
    journal.renew()

    assert {word for _, word in before} == {"heron4711", "stored"}
    assert {word for _, word in after} == {"heron4711"}
    assert in_files(tmp_path, ["heron4711"]) == set()
    journal.close()


ALL_NAMES = [
    "a/b",
    "a%2Fb//",
    "..",
    "x/export",
    "\u00fc \U0001f426",
    "q?a=1&b#c",
    "+ +",
    "\"'\\",
    "%",
    "n" * 128,
]


@without_cli
async def test_an_end_user_may_have_any_name(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))
    for number, name in enumerate(ALL_NAMES):
        run = await world.http.post(
            "/v1/runs/wait", json=a_request(name, endUser=name, runId=f"run-{number}", metadata={"a": name})
        )
        assert run.status_code == 200, run.text
    jobs = [await erased(world, name) for name in ALL_NAMES]
    refused = [
        (await world.http.delete(f"/v1/end-users/{quote(name, safe='')}")).status_code
        for name in ("~" + "0" * 64, "n" * 129, "\n")
    ]

    found = [(await world.http.get(f"/v1/runs/run-{number}")).json() for number in range(len(ALL_NAMES))]
    assert [(job["runs"], job["receipts"]) for job in jobs] == [(1, 1)] * len(ALL_NAMES)
    assert [(run["endUser"][0], run["metadata"]) for run in found] == [("~", None)] * len(ALL_NAMES)
    assert len({run["endUser"] for run in found}) == len(ALL_NAMES)
    assert refused == [422] * 3
    assert (await world.http.post("/v1/runs", json=a_request(endUser="~1"))).status_code == 422
    assert await findings(world.services.database) == []


@without_cli
async def test_conversations_that_have_no_run_yet_are_erased_by_the_labels_of_their_key(
    world_of: WorldOf, database_url: str
) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))

    async def create(end_user: str, word: str) -> None:
        labels = KeyLabels.of(end_user=end_user, fixed=True)
        _, secret = await world.services.accounts.create_key("default", ["runs:write"], labels=labels)
        items = [{"type": "message", "role": "user", "content": word}]
        session = {"agent": GRAPH, "environment_id": "env_default", "title": word, "metadata": {"a": word}}
        async with a_client(world.url, secret) as http:
            for path, body in (
                ("/openai/v1/conversations", {"items": items, "metadata": {"a": word}}),
                ("/managed-agents/v1/sessions", session),
            ):
                (await http.post(path, json=body)).raise_for_status()

    await create("ann", "heron4711")
    await create("bob", "sparrow2323")
    job = await erased(world, "ann")

    assert job["conversations"] == 2
    found = await in_tables(database_url, ["heron4711", "sparrow2323"])
    assert found == {("sessions", "sparrow2323")}


@without_cli
async def test_conversations_that_a_person_has_created_without_a_run_are_erased(
    world_of: WorldOf, database_url: str
) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))
    services = world.services
    owner = await services.accounts.authenticate(KEY)
    for person, word in (("ann", "heron4711"), ("bob", "sparrow2323")):
        caller = replace(owner, person=person)
        opening = Opening(api_key_id=caller.api_key_id, metadata={"a": word})
        await create_conversation(services.conversations, caller, opening)
        settings = SessionSettings(graph_id=GRAPH, api_key_id=caller.api_key_id, metadata={"a": word})
        await services.managed.create(caller, settings, title=word, request_id="q0")

    job = await erased(world, "ann")

    assert job["conversations"] == 2
    found = await in_tables(database_url, ["heron4711", "sparrow2323"])
    assert found == {("sessions", "sparrow2323")}


@without_cli
async def test_another_account_can_neither_erase_nor_watch(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))
    _, secret = await world.services.accounts.create_key("umbrella", SCOPES)
    body = a_request("heron4711", endUser="ann", runId="mine", stateKey="chat")
    await world.http.post("/v1/runs/wait", json=body)
    before = [(await world.http.get(path)).json() for path in ("/v1/runs/mine", "/v1/sessions/chat")]
    async with a_client(world.url, secret) as other:
        theirs = await erased(replace(world, http=other), "ann")
        after = [(await world.http.get(path)).json() for path in ("/v1/runs/mine", "/v1/sessions/chat")]
        mine = await world.http.delete("/v1/end-users/ann")
        watched = await other.get(mine.headers["location"])
        log = (await other.get("/v1/audit", params={"action": "end_user.erased"})).json()["items"]

    assert (theirs["runs"], theirs["receipts"]) == (0, 0)
    assert after == before
    assert (watched.status_code, watched.json()["code"]) == (404, "erasure_not_found")
    assert (await world.http.get(f"/v1/erasures/{uuid4()}")).status_code == 404
    assert (await world.http.get("/v1/erasures/none")).status_code == 404
    # The log can be read, and names no one.
    assert theirs["jobId"] in str(log)
    assert "ann" not in str(log)


@without_cli
async def test_a_second_request_returns_the_erasure_that_goes_on(world_of: WorldOf) -> None:
    hold = Hold(index=3)
    world = await world_of(in_turn(Reply([Text("one two three")], hold=hold)))
    await world.start(a_request("go", endUser="ann", runId="active"))
    await hold.reached.wait()

    first, second = [await world.http.delete("/v1/end-users/ann") for _ in range(2)]
    run = await world.ended("active")
    hold.until.set()
    job = await erased(world, "ann")

    assert first.json() == second.json()
    assert run["status"] == "cancelled"
    assert job["status"] == "completed"
    assert (await world.http.get("/v1/runs/active")).json()["endUser"].startswith("~")


@without_cli
async def test_an_archive_has_all_there_is_of_an_end_user_and_nothing_of_others(world_of: WorldOf) -> None:
    world = await world_of(in_turn(*[Reply([Text("bittern4711")])] * 4))
    name = "erin/ö"
    mine = a_request("heron4711", endUser=name, runId="mine", stateKey="chat", metadata={"note": "stork4711"})
    others = a_request("sparrow2323", endUser="frank", runId="theirs", stateKey="other")
    for body in (mine, others):
        assert (await world.http.post("/v1/runs/wait", json=body)).json()["ok"]
    rated = await world.http.put("/v1/runs/mine/feedback", json={"rating": "down", "note": "lark4711"})
    assert rated.status_code == 200
    planned = {"cron": "0 0 1 1 *", "run": a_request("avocet0815", endUser=name)}
    assert (await world.http.post("/v1/schedules", json=planned)).status_code == 201
    _, secret = await world.services.accounts.create_key("umbrella", SCOPES)
    path = f"/v1/exports/end-users/{quote(name, safe='')}"
    archive = read(await world.http.get(path))
    async with a_client(world.url, secret) as other:
        foreign = read(await other.get(path))
    reader = await world.services.accounts.create_key("default", ["runs:read"])
    async with a_client(world.url, reader[1]) as client:
        lesser = read(await client.get(path))
    await erased(world, name)
    after = read(await world.http.get(path))

    in_run = {"run.json", "request.json", "events.jsonl", "evidence.jsonl", "receipts.jsonl"}
    assert set(archive) == {
        *(f"runs/mine/{file}" for file in in_run),
        *("conversations/chat/1.json", "schedules.jsonl"),
    }
    assert "heron4711" in archive["runs/mine/request.json"]
    assert all(word in archive["runs/mine/run.json"] for word in ("stork4711", "lark4711"))
    assert all(word in archive["conversations/chat/1.json"] for word in ("heron4711", "bittern4711"))
    assert "bittern4711" in archive["runs/mine/events.jsonl"]
    assert "avocet0815" in archive["schedules.jsonl"]
    assert "sparrow2323" not in str(archive)
    assert archive.keys() - lesser.keys() == {"runs/mine/evidence.jsonl", "runs/mine/receipts.jsonl"}
    assert foreign == after == {"schedules.jsonl": ""}


def read(response: httpx.Response) -> dict[str, str]:
    """The files of an archive."""
    assert response.status_code == 200, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}
