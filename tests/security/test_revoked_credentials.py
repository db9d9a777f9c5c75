"""A key that is revoked, or a session that is left, closes what it has opened: on every server, at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from app.auth.accounts import Accounts
from app.billing.prices.price_list import Charge
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.ids import ApiKeyId
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.runs.revocation.service import KeyRevocation
from tests.e2e.stories import a_request
from tests.factories import a_fact
from tests.integration.mcp_messages import TOKEN, a_call
from tests.patience import PATIENCE_S, until_shown
from tests.security.server import ASSISTANT, Target, a_target_here

RECEIPTS = 8000
LONG_NOTE = "note " * 400
SESSION = "/v1/browser-session"
SESSIONS, IDLE = "/managed-agents/v1/sessions", {"agent": ASSISTANT, "environment_id": "env_default"}
OURS = {"Sec-Fetch-Site": "same-origin"}


@asynccontextmanager
async def accounts_of(target: Target) -> AsyncIterator[tuple[Accounts, KeyRevocation]]:
    """What `runtally keys` works with, beside the server."""
    database = await Database.open(target.database_url)
    try:
        accounts = Accounts(database)
        yield accounts, KeyRevocation(database, accounts.revoke_key)
    finally:
        await database.aclose()


async def id_of(target: Target, key: str) -> ApiKeyId:
    """The id of a key."""
    async with accounts_of(target) as (accounts, _):
        return (await accounts.authenticate(key)).api_key_id


async def revoke(target: Target, key: str) -> None:
    """Revoke a key as the command does."""
    key_id = await id_of(target, key)
    async with accounts_of(target) as (_, revocation):
        await revocation.revoke(key_id, stop_runs=False)


async def many_receipts(target: Target, key: str) -> None:
    """Receipts of this key, more than fits into what lies between the server and who does not read."""
    database = await Database.open(target.database_url)
    try:
        accounts = Accounts(database)
        owner = await accounts.authenticate(key)
        (record,), _ = await accounts.list_account_keys(owner.account_id, PageRequest(1))
        charge = Charge(Decimal("0.01"), 100_000, "test")
        facts = (a_fact(record, f"msg_{n}", run=f"run-{n}", note=LONG_NOTE) for n in range(RECEIPTS))
        async with database.transaction() as tx:
            await insert_receipts(tx, [NewReceipt.of(fact, charge, "final") for fact in facts])
    finally:
        await database.aclose()


async def a_hanging_run(http: httpx.AsyncClient, **fields: Any) -> str:
    """A run whose agent never answers."""
    run_id = uuid4().hex
    started = await http.post("/v1/runs", json=a_request("hang", runId=run_id, **fields))
    assert started.status_code == 202, started.text
    return run_id


async def read_to_the_end(
    http: httpx.AsyncClient, method: str, path: str, opened: Callable[[], None], **options: Any
) -> bytes:
    """The bytes of a stream, to its end."""
    async with http.stream(method, path, **options) as response:
        assert response.status_code == 200, await response.aread()
        opened()
        return await response.aread()


class Streams:
    """Streams that are open, and how they end."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[bytes]] = []
        self._opened: list[asyncio.Event] = []

    def open(self, http: httpx.AsyncClient, method: str, path: str, **options: Any) -> None:
        """Read a stream in the background."""
        opened = asyncio.Event()
        self._opened.append(opened)
        self._tasks.append(asyncio.create_task(read_to_the_end(http, method, path, opened.set, **options)))

    async def closed_by(self, cause: Callable[[], Awaitable[object]]) -> list[bytes]:
        """Wait until all are open, then for their end, and return the outcome of each."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(event.wait() for event in self._opened))
        await cause()
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.gather(*self._tasks)


async def test_a_revoked_key_closes_its_streams_on_every_wire_and_no_other(target: Target) -> None:
    account = f"streams-{uuid4().hex}"
    doomed, spared = [await target.new_key(account) for _ in range(2)]
    streams, agent = Streams(), f"/v1/ag-ui/{ASSISTANT}"
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hang"}]}
    posted = {"threadId": uuid4().hex, "runId": uuid4().hex}
    user = {"id": "u-1", "role": "user", "content": "hang"}
    async with target.client(doomed) as http, target.client(spared) as other:
        run_id = await a_hanging_run(http)
        others = asyncio.create_task(read_to_the_end(other, "GET", f"/v1/runs/{run_id}/events", lambda: None))
        streams.open(http, "GET", f"/v1/runs/{run_id}/events")
        streams.open(http, "POST", agent, json={**posted, "messages": [user]})
        streams.open(
            http, "POST", f"/v1/ai-sdk/{ASSISTANT}/chat", json={"id": uuid4().hex, "messages": [question]}
        )
        hang = {"model": ASSISTANT, "stream": True, "messages": [{"role": "user", "content": "hang"}]}
        streams.open(http, "POST", "/openai/v1/chat/completions", json=hang)
        response = {"model": ASSISTANT, "stream": True, "input": "hang", "background": True}
        streams.open(http, "POST", "/openai/v1/responses", json=response)
        streams.open(http, "POST", "/mcp", json=a_call(ASSISTANT.replace(":", "__"), "hang", **TOKEN))
        session = (await http.post(SESSIONS, json=IDLE)).json()["id"]
        streams.open(http, "GET", f"{SESSIONS}/{session}/events/stream")

        native, ag_ui, ai_sdk, openai, responses, mcp, managed = await streams.closed_by(
            lambda: revoke(target, doomed)
        )
        back = await http.get(f"/v1/runs/{run_id}/events", headers={"Last-Event-ID": "1"})
        still_open = not others.done()
        runs = {run["status"] for run in (await other.get("/v1/runs")).json()["items"]}
        for run in (await other.get("/v1/runs")).json()["items"]:
            await other.post(f"/v1/runs/{run['runId']}/cancel")
        received = await others

    assert native.endswith(b": The API key was revoked, or the session has ended.\n")
    assert b'"code":"unauthenticated"' in ag_ui.splitlines()[-2]
    assert ai_sdk.endswith(b'data: {"type":"error","errorText":"unauthenticated"}\n\ndata: [DONE]\n\n')
    assert b'"code":"invalid_api_key"' in openai.splitlines()[-2]
    assert b'"data":{"code":"unauthenticated"}' in mcp.splitlines()[-2]
    assert b'{"type":"error","sequence_number":2,"code":"invalid_api_key"' in responses.splitlines()[-2]
    assert b'"type":"authentication_error"' in managed
    assert back.status_code == 401
    assert (still_open, runs) == (True, {"running"})
    assert b"event: done" in received


async def test_a_revoked_key_ends_its_exports(target: Target) -> None:
    key = await target.new_key(f"export-{uuid4().hex}")
    await many_receipts(target, key)
    head = f"GET /v1/receipts?format=csv HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
    reader, writer = await target.connect()
    writer.write(head.encode())
    status = await reader.readline()

    streams = Streams()
    async with target.client(key) as http:
        session = (await http.post(SESSIONS, json=IDLE)).json()["id"]
        streams.open(http, "GET", f"{SESSIONS}/{session}/events/stream")
        # Most of the export is not sent yet when the server gets to know, which ends the stream.
        await streams.closed_by(lambda: revoke(target, key))
    rest = await reader.read()
    writer.close()

    assert b" 200 " in status
    assert not rest.endswith(b"0\r\n\r\n")
    assert rest.count(b"claude_sdk") < RECEIPTS


async def test_a_revoked_key_ends_waiting_requests_with_401(target: Target) -> None:
    account = f"waits-{uuid4().hex}"
    key, other = [await target.new_key(account) for _ in range(2)]
    async with target.client(key) as http, target.client(other) as operator:
        run_id = uuid4().hex
        waits = [
            asyncio.create_task(http.post("/v1/runs/wait", json=a_request("hang", runId=run_id))),
            asyncio.create_task(http.post("/v1/generate/text", json={"prompt": "hang"})),
            asyncio.create_task(
                http.post("/v1/generate/object", json={"prompt": "hang", "schema": {"type": "object"}})
            ),
        ]
        await running(operator, 3)
        async with accounts_of(target) as (_, revocation):
            key_id = await id_of(target, key)
            await revocation.revoke(key_id, stop_runs=False)
            answers = await asyncio.gather(*waits)
            await revocation.stop_runs(api_key_id=key_id)

    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(401, "unauthenticated")}


async def test_signing_out_closes_the_streams_of_that_session_only(target: Target) -> None:
    key = await target.new_key(f"browser-{uuid4().hex}")
    streams = Streams()
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=target.url, timeout=PATIENCE_S, trust_env=False)
            )
            for _ in range(2)
        ]
        http = await stack.enter_async_context(target.client(key))
        for browser in (one, two):
            assert (await browser.post(SESSION, json={"apiKey": key})).status_code == 200
        run_id = await a_hanging_run(http)
        others = [
            asyncio.create_task(read_to_the_end(client, "GET", f"/v1/runs/{run_id}/events", lambda: None))
            for client in (two, http)
        ]
        streams.open(one, "GET", f"/v1/runs/{run_id}/events")

        await streams.closed_by(lambda: one.delete(SESSION, headers=OURS))
        still_open = [not task.done() for task in others]
        await http.post(f"/v1/runs/{run_id}/cancel")
        ends = await asyncio.gather(*others)

    assert still_open == [True, True]
    assert all(b"event: done" in end for end in ends)


async def test_stopping_the_runs_of_a_key_stops_what_waits_and_what_runs_on_every_server(
    target: Target, model_url: str, tmp_path: Path, redis_url: str
) -> None:
    account, chat = f"stops-{uuid4().hex}", uuid4().hex
    doomed, spared = [await target.new_key(account) for _ in range(2)]
    key_id = await id_of(target, doomed)
    streams = Streams()
    async with (
        a_target_here(tmp_path, target.database_url, model_url, REDIS_URL=redis_url) as second,
        target.client(doomed) as here,
        second.client(doomed) as there,
        target.client(spared) as other,
        target.client() as admin,
    ):
        # The second of them waits for the first one's end.
        runs = [await a_hanging_run(here, stateKey=chat), await a_hanging_run(here, stateKey=chat)]
        runs.append(await a_hanging_run(there))
        kept = await a_hanging_run(other)
        await running(other, 3)
        streams.open(there, "GET", f"/v1/runs/{runs[0]}/events")

        await streams.closed_by(lambda: admin.delete(f"/v1/keys/{key_id}", params={"stopRuns": True}))
        ends = [await ended(other, run_id) for run_id in runs]
        again = (await admin.delete(f"/v1/keys/{key_id}", params={"stopRuns": True})).json()
        untouched = (await other.get(f"/v1/runs/{kept}")).json()
        await other.post(f"/v1/runs/{kept}/cancel")
        await ended(other, kept)

    assert [run["status"] for run in ends] == ["cancelled"] * 3
    assert again["stoppedRuns"] == 0
    assert untouched["status"] == "running"


async def running(http: httpx.AsyncClient, number: int) -> None:
    """Wait until so many of the account's runs are under way."""
    await until_shown(
        http, "/v1/runs", lambda runs: sum(run["status"] == "running" for run in runs["items"]) >= number
    )


async def ended(http: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """A run, once it has ended."""
    run: dict[str, Any] = await until_shown(http, f"/v1/runs/{run_id}", lambda run: run["final"] is not None)
    return run
