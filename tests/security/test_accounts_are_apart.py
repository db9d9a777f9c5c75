"""Every operation of the API, called with keys that may not: nothing is shown, nothing happens."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from app.auth.accounts import Accounts
from app.platform.db import Database
from app.requests.principal import OF_ADMIN, SCOPES, Scope
from tests.architecture.test_documented_scopes import Operation, documented
from tests.batches import JSON_LINES, a_line, created, ended, joined
from tests.e2e.stories import a_request
from tests.patience import PATIENCE_S
from tests.security.server import ASSISTANT, TENANT, Target

SECRET = "the heron flies at dawn"
"""What the victim has said; in no answer to anybody else."""

_IDS = ("run", "response", "session", "chat", "thread", "webhook", "schedule", "batch", "key", "job")
NAMED = re.compile(rf"\{{({'Id|'.join(_IDS)}Id|stateKey|account)\}}")
"""Paths of what belongs to somebody."""

MANAGED = "/managed-agents/v1/sessions"

LINES = {"/v1/batches", "/v1/batches/preview"}
"""Those that take lines of JSON, where they take a body."""

BUDGET = "the-budget"
SOFT = {"scope": "account", "window": "total", "usd": "1000", "mode": "soft"}
"""Every account may have a budget with this id."""

MATRIX = documented()


@dataclass(frozen=True, slots=True)
class Victim:
    """An account with a conversation, a webhook, a schedule and a batch."""

    http: httpx.AsyncClient
    account: str
    run_id: str
    chat: str
    session_id: str
    webhook_id: str
    schedule_id: str
    batch_id: str
    key_id: str
    job_id: str

    def path(self, path: str) -> str:
        """A path with its ids."""
        ids = {
            "runId": self.run_id,
            "responseId": f"resp_{self.run_id}",
            "requestId": str(uuid4()),
            "toolCallId": str(uuid4()),
            "stateKey": self.chat,
            "sessionId": self.session_id,
            "agentId": ASSISTANT,
            "environmentId": "env_default",
            "chatId": self.chat,
            "threadId": self.chat,
            "graphId": ASSISTANT,
            "model": ASSISTANT,
            "webhookId": self.webhook_id,
            "scheduleId": self.schedule_id,
            "batchId": self.batch_id,
            "deliveryId": str(uuid4()),
            "grantId": str(uuid4()),
            "path": "a.txt",
            "account": self.account,
            "keyId": self.key_id,
            "endUser": "ann",
            "jobId": self.job_id,
            "budgetId": BUDGET,
            "month": "2026-10",
        }
        return re.sub(r"\{(\w+)\}", lambda name: ids[name[1]], path)

    async def state(self) -> dict[str, Any]:
        """All there is to see of it."""
        paths = [
            *("/v1/runs", "/v1/sessions", "/v1/webhooks", "/v1/receipts", "/v1/balance", "/v1/usage"),
            *(f"/v1/sessions/{self.chat}", f"/v1/runs/{self.run_id}"),
            f"{MANAGED}/{self.session_id}/events",
            *("/v1/schedules", f"/v1/schedules/{self.schedule_id}/runs"),
            *("/v1/batches", f"/v1/batches/{self.batch_id}", f"/v1/erasures/{self.job_id}", "/v1/budgets"),
        ]
        return {path: (await self.http.get(path)).raise_for_status().json() for path in paths}


async def an_ended_erasure(http: httpx.AsyncClient) -> str:
    """The job that has erased an end user of whom there is nothing."""
    started = (await http.delete("/v1/end-users/nemo")).raise_for_status()
    async with asyncio.timeout(PATIENCE_S):
        while (await http.get(started.headers["location"])).json()["status"] != "completed":
            await asyncio.sleep(0.05)
    found: str = started.json()["jobId"]
    return found


async def a_session(http: httpx.AsyncClient) -> str:
    """A session of Managed Agents in which something was said."""
    body = {"agent": ASSISTANT, "environment_id": "env_default", "initial_events": [said(SECRET)]}
    session = str((await http.post(MANAGED, json=body)).raise_for_status().json()["id"])
    async with asyncio.timeout(PATIENCE_S):
        while (await http.get(f"{MANAGED}/{session}")).json()["status"] != "idle":
            await asyncio.sleep(0.05)
    return session


def detail_of(answer: httpx.Response) -> str:
    """The sentence of an error, in whichever form."""
    found = answer.json()
    return str(found["detail"] if "detail" in found else found["error"]["message"])


def said(text: str) -> dict[str, Any]:
    """A message of a session."""
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


@asynccontextmanager
async def a_victim(target: Target) -> AsyncIterator[Victim]:
    """An account of its own that has said something."""
    account, chat, run_id = (f"{kind}-{uuid4().hex}" for kind in ("victim", "chat", "run"))
    async with target.client(await target.new_key(account)) as http:
        posted = await http.post(
            "/v1/runs/wait", json=a_request(SECRET, runId=run_id, stateKey=chat, endUser="ann")
        )
        assert posted.raise_for_status().json()["ok"]
        session_id = await a_session(http)
        hook = {"url": "https://example.org/hook", "events": ["budget.threshold"]}
        (await http.put(f"/v1/budgets/{BUDGET}", json=SOFT)).raise_for_status()
        registered = (await http.post("/v1/webhooks", json=hook)).raise_for_status().json()
        schedule = {"scheduleId": uuid4().hex, "cron": "0 0 1 1 *", "run": a_request(SECRET)}
        scheduled = (await http.post("/v1/schedules", json=schedule)).raise_for_status().json()
        batch = await created(http, [a_line("1", SECRET, graph=ASSISTANT)])
        batch_id = (await ended(http, batch))["batchId"]
        key_id = (await http.get("/v1/keys")).json()["items"][0]["id"]
        job_id = await an_ended_erasure(http)
        yield Victim(
            *(http, account, run_id, chat, session_id, registered["id"], scheduled["scheduleId"], batch_id),
            *(key_id, job_id),
        )


def a_body(operation: Operation, victim: Victim) -> Any:
    """A body this operation takes, naming what is the victim's wherever it can name something."""
    if operation[0] in {"GET", "DELETE"}:
        return None
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    approval = {"id": str(uuid4()), "approved": True}
    consent = {"type": "tool-x", "state": "approval-responded", "approval": approval}
    entry = {"interruptId": f"{victim.run_id}/1/{uuid4()}", "status": "cancelled"}
    hook = {"url": "https://example.org/mine", "events": ["run.completed"]}
    run = a_request("hi", runId=victim.run_id, stateKey=victim.chat)
    schedule = {"cron": "0 0 1 1 *", "run": a_request("hi", stateKey=victim.chat)}
    bodies: dict[str, Any] = {
        "/v1/runs": run,
        "/v1/runs/stream": run,
        "/v1/runs/wait": run,
        "/v1/runs/preview": run,
        "/v1/generate/text": {"prompt": "hi", "runId": victim.run_id},
        "/v1/generate/object": {"prompt": "hi", "runId": victim.run_id, "schema": {"type": "object"}},
        "/v1/ag-ui/{graphId}": {
            "threadId": victim.chat,
            "runId": victim.run_id,
            "messages": [],
            "resume": [entry],
        },
        "/v1/ai-sdk/{graphId}/chat": {
            "id": victim.chat,
            "messages": [question, {"id": victim.run_id, "role": "assistant", "parts": [consent]}],
        },
        "/openai/v1/chat/completions": {
            "model": ASSISTANT,
            "messages": [{"role": "tool", "tool_call_id": f"{victim.run_id}--x", "content": "yes"}],
        },
        "/mcp": {
            "jsonrpc": "2.0",
            "id": f"{victim.run_id}/{uuid4()}",
            "result": {"action": "accept", "content": {"approved": True}},
        },
        "/openai/v1/responses": {
            "model": ASSISTANT,
            "input": "repeat all you know",
            "previous_response_id": f"resp_{victim.run_id}",
        },
        MANAGED: {"agent": ASSISTANT, "environment_id": "env_default"},
        f"{MANAGED}/{{sessionId}}": {"title": "mine"},
        f"{MANAGED}/{{sessionId}}/events": {"events": [said("repeat all you know")]},
        "/v1/runs/{runId}/messages": {"content": "repeat all you know"},
        "/v1/runs/{runId}": {"permissionMode": "plan"},
        "/v1/runs/{runId}/permissions/{requestId}": {"decision": "allow"},
        "/v1/runs/{runId}/tool-results/{toolCallId}": {"result": "yes"},
        "/v1/runs/{runId}/questions/{requestId}": {"answers": {"0": "yes"}},
        "/v1/sessions/{stateKey}/fork": {"at": victim.run_id},
        "/v1/sessions/{stateKey}/branch": {"branchId": str(uuid4())},
        "/v1/schedules": {"scheduleId": victim.schedule_id, **schedule},
        "/v1/schedules/{scheduleId}": schedule,
        "/v1/webhooks": hook,
        "/v1/webhooks/{webhookId}": hook,
        "/v1/webhooks/{webhookId}/replay": {"from": "2026-01-01T00:00:00Z"},
        "/v1/accounts": {"name": f"new-{uuid4().hex}"},
        "/v1/accounts/{account}/keys": {"scopes": ["keys:write"]},
        "/v1/budgets/{budgetId}": {**SOFT, "usd": "2"},
        "/v1/balance/top-up": {"belowUsd": "1", "amountUsd": "5"},
        "/v1/accounts/{account}": {"mode": "prepaid"},
        "/v1/accounts/{account}/grants": {"usd": "1"},
        "/v1/accounts/{account}/adjustments": {"usd": "1", "note": "x"},
    }
    return bodies.get(operation[1])


async def send(http: httpx.AsyncClient, operation: Operation, victim: Victim) -> httpx.Response:
    """Ask for an operation on what is the victim's."""
    method, path = operation
    period = {"from": "2026-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    searched = {"/v1/sessions": {"q": SECRET}, "/v1/receipts": {"runId": victim.run_id}}
    query = {**searched, "/v1/exports/focus": period}.get(path)
    if path in LINES and method == "POST":
        lines = joined([a_line("1", "hi", graph=ASSISTANT)])
        return await http.request(method, path, content=lines, headers=JSON_LINES)
    return await http.request(method, victim.path(path), json=a_body(operation, victim), params=query)


def without(scope: Scope) -> list[Scope]:
    """All scopes but this one, and but `admin` if that includes it."""
    return [held for held in SCOPES if held != scope and not (held == "admin" and scope in OF_ADMIN)]


async def test_every_operation_needs_a_valid_key_with_its_scopes(target: Target) -> None:
    revoked = await target.new_key(f"gone-{uuid4().hex}", SCOPES)
    await revoke(target, revoked)
    account = f"other-{uuid4().hex}"
    lacking = {scope: await target.new_key(account, without(scope)) for scope in SCOPES}
    anomalies: list[Any] = []
    async with a_victim(target) as victim:
        for operation, needed in MATRIX.items():
            wrong = [("rt_" + "x" * 43, 401), (revoked, 401), *((lacking[scope], 403) for scope in needed)]
            for key, expected in wrong:
                async with target.client(key) as http:
                    answer = await send(http, operation, victim)
                if answer.status_code != expected or SECRET in answer.text:
                    anomalies.append((operation, key, answer.status_code, answer.text))

    assert anomalies == []


async def test_the_scopes_of_an_operation_are_enough(target: Target) -> None:
    account = f"exact-{uuid4().hex}"
    keys = {scopes: await target.new_key(account, scopes) for scopes in set(MATRIX.values())}
    # These bodies answer requests for consent, which needs more.
    consents = {"/v1/ag-ui/{graphId}", "/v1/ai-sdk/{graphId}/chat"}
    anomalies: list[Any] = []
    async with a_victim(target) as victim:
        for operation, needed in MATRIX.items():
            async with target.client(keys[needed]) as http:
                answer = await send(http, operation, victim)
            expected = 403 if operation[1] in consents else None
            if answer.status_code in {401, 403} and answer.status_code != expected:
                anomalies.append((operation, answer.status_code, answer.text))

    assert anomalies == []


async def test_nothing_of_another_account_is_seen_or_changed(target: Target) -> None:
    key = await target.new_key(f"other-{uuid4().hex}", TENANT)
    # Last, those that start something of their own account, under the victim's ids.
    theirs = [operation for operation in MATRIX if NAMED.search(operation[1])]
    others = [operation for operation in MATRIX if operation not in theirs]
    anomalies: list[Any] = []
    async with a_victim(target) as victim, target.client(key) as other_client:
        before = await victim.state()
        for operation in [*theirs, *others]:
            answer = await send(other_client, operation, victim)
            if operation in theirs and answer.status_code not in {204, 403, 404}:
                anomalies.append((operation, answer.status_code, answer.text))
            if SECRET in answer.text or victim.webhook_id in answer.text:
                anomalies.append((operation, "shows", answer.text))
        after = await victim.state()

    assert anomalies == []
    assert after == before


class TestAKeyThatMayOnlyWrite:
    """Beside others of its account, it knows what it has started itself."""

    async def test_it_reads_nothing_that_other_keys_have_asked(self, target: Target) -> None:
        async with a_victim(target) as victim:
            scopes: tuple[Scope, ...] = tuple(scope for scope in TENANT if scope != "runs:read")
            before = await victim.state()
            async with target.client(await target.new_key(victim.account, scopes)) as writer:
                answers = {
                    name: await writer.post(path, json=body)
                    for name, (path, body) in ways_to_read(victim).items()
                }
            after = await victim.state()

        refusals = {name: (answer.status_code, detail_of(answer)) for name, answer in answers.items()}
        assert refusals == dict.fromkeys(answers, (403, "This API key lacks the scope runs:read."))
        assert after == before

    async def test_it_deletes_nothing_but_its_own(self, target: Target) -> None:
        own = a_request("hello", runId=uuid4().hex, stateKey=uuid4().hex)
        of_its_own = [f"/v1/runs/{own['runId']}", f"/v1/sessions/{own['stateKey']}"]
        async with a_victim(target) as victim:
            of_others = [f"/v1/runs/{victim.run_id}", f"/v1/sessions/{victim.chat}"]
            async with target.client(await target.new_key(victim.account, ["runs:write"])) as writer:
                await writer.post("/v1/runs/wait", json=own)
                before = await victim.state()
                others = [await writer.delete(path) for path in of_others]
                after = await victim.state()
                allowed = [await writer.delete(path) for path in of_its_own]

        assert [(answer.status_code, answer.json()["detail"]) for answer in others] == [
            (403, "This API key lacks the scope runs:read.")
        ] * 2
        assert after == before
        assert [answer.status_code for answer in allowed] == [204, 204]

    async def test_it_joins_and_goes_on_with_what_it_has_begun(self, target: Target) -> None:
        key = await target.new_key(f"writer-{uuid4().hex}", ["runs:write"])
        chat = uuid4().hex
        body = a_request("hello", runId=uuid4().hex, stateKey=chat)
        async with target.client(key) as http:
            first = await http.post("/v1/runs/wait", json=body)
            again = await http.post("/v1/runs/wait", json=body)
            onward = await http.post("/v1/runs/wait", json=a_request("and now?", stateKey=chat))

        assert first.json() == again.json()
        assert onward.json()["ok"]

    async def test_a_conversation_that_another_key_has_joined_is_no_longer_its_own(
        self, target: Target
    ) -> None:
        account, chat = f"both-{uuid4().hex}", uuid4().hex
        first = await target.new_key(account, ["runs:write"])
        second = await target.new_key(account, ["runs:write", "runs:read"])
        onward = a_request("What was said?")
        async with target.client(first) as writer, target.client(second) as reader:
            await writer.post("/v1/runs/wait", json=a_request("hello", stateKey=chat))
            await reader.post("/v1/runs/wait", json=a_request(SECRET, stateKey=chat))
            forked = (await reader.post(f"/v1/sessions/{chat}/fork", json={})).json()["stateKey"]
            refused = [
                await writer.post("/v1/runs/wait", json={**onward, "stateKey": key}) for key in (chat, forked)
            ]

        assert [answer.status_code for answer in refused] == [403, 403]


def ways_to_read(victim: Victim) -> dict[str, tuple[str, Any]]:
    """Requests whose answers would show something of the victim's conversation."""
    same = a_request(SECRET, runId=victim.run_id, stateKey=victim.chat)
    onward = a_request("What did I say?", stateKey=victim.chat)
    guess = [
        {"role": "user", "content": "a guess"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "and now?"},
    ]
    question = {"id": uuid4().hex, "role": "user", "parts": [{"type": "text", "text": "What did I say?"}]}
    thread = {"threadId": victim.chat, "messages": [{"id": "u-1", "role": "user", "content": SECRET}]}
    agent = f"/v1/ag-ui/{ASSISTANT}"
    return {
        "the same run": ("/v1/runs", same),
        "its events": ("/v1/runs/stream", same),
        "its end": ("/v1/runs/wait", same),
        "whether a body is its": ("/v1/runs", {**same, "messages": guess}),
        "as a prompt": ("/v1/generate/text", {"prompt": SECRET, "runId": victim.run_id}),
        "as an AG-UI agent": (agent, {**thread, "runId": victim.run_id}),
        "the agent's memory": ("/v1/runs/wait", onward),
        "whether a history is its": ("/v1/runs", {**onward, "messages": guess}),
        "its thread": (agent, {**thread, "runId": uuid4().hex}),
        "its chat": (f"/v1/ai-sdk/{ASSISTANT}/chat", {"id": victim.chat, "messages": [question]}),
        "its schedule": (f"/v1/schedules/{victim.schedule_id}/trigger", {}),
        "a copy": (f"/v1/sessions/{victim.chat}/fork", {}),
        "its session": (f"{MANAGED}/{victim.session_id}/events", {"events": [said("What did I say?")]}),
        "through the agent": (f"/v1/runs/{victim.run_id}/messages", {"content": "Repeat everything."}),
    }


async def test_the_graphs_prompt_is_shown_to_operators_only(target: Target) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    body = a_request(messages=messages)
    async with target.client(await target.new_key(f"curious-{uuid4().hex}")) as tenant:
        shown = (await tenant.post("/v1/runs/preview", json=body)).raise_for_status().json()
    async with target.client() as operator:
        whole = (await operator.post("/v1/runs/preview", json=body)).json()

    assert whole["systemPrompt"].startswith("You are a helpful assistant.")
    assert re.fullmatch(r"\[the graph's prompt: \d+ characters\]\n\nBe brief\.", shown["systemPrompt"])
    assert {**shown, "systemPrompt": ""} == {**whole, "systemPrompt": ""}


async def revoke(target: Target, secret: str) -> None:
    """Revoke a key, as `runtally keys revoke` does."""
    database = await Database.open(target.database_url)
    try:
        accounts = Accounts(database)
        await accounts.revoke_key((await accounts.authenticate(secret)).api_key_id)
    finally:
        await database.aclose()
