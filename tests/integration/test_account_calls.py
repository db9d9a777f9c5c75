"""What waits for a person: the list of an account, and what its webhooks get."""

from datetime import UTC, datetime, timedelta
from typing import Any

from app.auth.records import KeyRecord
from app.executors.waiting.port import StoredCall, WaitKind
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.runs.records import NewRun
from app.runs.waits.listing.records import CallFilter
from app.runs.waits.listing.service import AccountCalls
from app.runs.waits.live import RunWaits
from app.runs.waits.repository import grant_calls
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn
from tests.integration.run_process import GRAPH, insert
from tests.integration.statements import execute
from tests.integration.webhook_seam import payloads, register

HOUR = timedelta(hours=1)
ALL = CallFilter()
OTHER = "claude_agents:other"


async def wait_for(
    database: Database,
    key: KeyRecord,
    call_id: str,
    kind: WaitKind = "permission",
    *,
    run: str = "r1",
    expires_in: timedelta = HOUR,
    **request: Any,
) -> RunWaits:
    """A call of a run that waits."""
    waits = RunWaits(database, RunKey(key.account_id, RunId(run)), 0)
    stored = StoredCall(call_id, kind, f"tool-{call_id}", request, datetime.now(UTC) + expires_in)
    await waits.open(stored)
    return waits


async def listed(database: Database, key: KeyRecord, chosen: CallFilter = ALL) -> list[str]:
    page = await AccountCalls(database).page(key.account_id, chosen, PageRequest(10))
    return [call.call_id for call in page.calls]


async def test_calls_that_wait_are_listed_newest_first_until_they_are_answered(
    database: Database, key: KeyRecord
) -> None:
    await a_turn(database, key, "r1", ended=False)
    waits = await wait_for(database, key, "first")
    await wait_for(database, key, "question", "question")
    await wait_for(database, key, "last")
    await wait_for(database, key, "late", expires_in=-HOUR)
    open_calls = AccountCalls(database)
    first = await open_calls.page(key.account_id, ALL, PageRequest(2))
    second = await open_calls.page(key.account_id, ALL, PageRequest.of(2, first.next_cursor))
    await waits.resolve("last", "decided", {"decision": "allow"})

    assert [call.call_id for call in (*first.calls, *second.calls)] == ["last", "question", "first"]
    assert (first.counts, second.next_cursor) == ({"permission": 2, "question": 1}, None)
    assert await listed(database, key) == ["question", "first"]


async def test_they_are_chosen_by_kind_graph_run_and_conversation(database: Database, key: KeyRecord) -> None:
    await a_turn(database, key, "r1", ended=False)
    other = NewRun(RunKey(key.account_id, RunId("r2")), key.id, OTHER, "m", "{}", "", b"", None, new_uuid())
    async with database.transaction() as tx:
        await insert(tx, other)
    await wait_for(database, key, "a")
    await wait_for(database, key, "b", "client_tool", run="r2")

    assert await listed(database, key, CallFilter(kind="client_tool")) == ["b"]
    assert await listed(database, key, CallFilter(run_ids=["r1"])) == ["a"]
    assert await listed(database, key, CallFilter(graph_id=OTHER)) == ["b"]
    assert await listed(database, key, CallFilter(graph_id=GRAPH, state_key=KEY)) == ["a"]
    assert await listed(database, key, CallFilter(graph_id=OTHER, state_key=KEY)) == []
    assert await listed(database, key, CallFilter(state_key="chat-2")) == []
    page = await AccountCalls(database).page(key.account_id, CallFilter(kind="question"), PageRequest(1))
    assert page.counts == {"permission": 1, "client_tool": 1}


async def test_a_grant_resolves_the_calls_of_its_tool_that_may_be_granted(
    database: Database, key: KeyRecord
) -> None:
    await a_turn(database, key, "r1", ended=False)
    for call_id in ("a", "b"):
        await wait_for(database, key, call_id, toolName="office__mail", grantable=True)
    await wait_for(database, key, "one by one", toolName="office__mail")
    await wait_for(database, key, "other", toolName="office__pay", grantable=True)
    await wait_for(database, key, "client's", "client_tool", toolName="office__mail", grantable=True)
    async with database.transaction() as tx:
        await grant_calls(tx, RunKey(key.account_id, RunId("r1")), "office__mail")

    assert await listed(database, key) == ["client's", "other", "one by one"]


async def test_no_other_account_sees_them_or_hears_of_them(database: Database, key: KeyRecord) -> None:
    other = await an_account(database, "other")
    await register(database, other, events=["approval.requested"])
    await a_turn(database, key, "r1", ended=False)
    await wait_for(database, key, "a", toolName="office__mail")

    assert await listed(database, other) == []
    assert await payloads(database) == []


async def test_a_webhook_gets_what_waits_for_a_person_without_its_contents(
    database: Database, key: KeyRecord
) -> None:
    await register(database, key, events=["approval.requested"])
    await a_turn(database, key, "r1", ended=False)
    await execute(database, """UPDATE runs SET end_user = 'ann', tags = '{"team": "search"}'""")
    # What PostgreSQL cannot parse keeps no call from waiting.
    args = {"to": "bob\0", "text": "SECRET"}
    await wait_for(database, key, "a", toolName="office__mail", args=args)
    await wait_for(database, key, "b", "question", questions=[{"question": "SECRET?"}])
    await wait_for(database, key, "c", "client_tool", toolName="pick")
    approval, question = sorted(await payloads(database), key=lambda sent: str(sent["data"]["requestId"]))

    (call,) = (
        await AccountCalls(database).page(key.account_id, CallFilter(kind="permission"), PageRequest(1))
    ).calls
    assert approval == {
        "type": "approval.requested",
        "timestamp": call.requested_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "data": {
            "runId": "r1",
            "requestId": "a",
            "kind": "approval",
            "graphId": "claude_agents:assistant",
            "stateKey": KEY,
            "endUser": "ann",
            "tags": {"team": "search"},
            "toolName": "office__mail",
            "expiresAt": call.expires_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
    assert (question["data"]["kind"], question["data"]["toolName"]) == ("question", None)
    assert "SECRET" not in str((approval, question))


async def test_a_webhook_gets_the_end_of_a_batch_once(database: Database, key: KeyRecord) -> None:
    await register(database, key, events=["batch.completed"])
    values = {"account": key.account_id, "key": key.id}
    await execute(
        database,
        "INSERT INTO batches (id, account_id, api_key_id, graph_id, request_hash, parallelism, items, "
        "succeeded, created_at, step_at) "
        "VALUES (gen_random_uuid(), :account, :key, 'messages:a', '', 1, 2, 2, now(), now())",
        **values,
    )
    for _ in range(2):
        await execute(database, "UPDATE batches SET ended_at = now()")

    (payload,) = await payloads(database)
    assert (payload["type"], payload["data"]["items"], payload["data"]["succeeded"]) == (
        "batch.completed",
        2,
        2,
    )
