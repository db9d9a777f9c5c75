"""Every operation of the API, called with keys that may not: nothing is shown, nothing happens."""

import re
from typing import Any
from uuid import uuid4

import pytest

from app.auth.accounts import Accounts
from app.platform.db import Database
from app.requests.principal import OF_ADMIN, SCOPES, Scope
from tests.e2e.stories import a_request
from tests.integration.mcp_messages import WITH_TASKS, a_call, modern, of_task
from tests.security import victims
from tests.security.server import ASSISTANT, TENANT, Target


def without(scope: Scope) -> list[Scope]:
    """All scopes but this one, and but `admin` if that includes it."""
    return [held for held in SCOPES if held != scope and not (held == "admin" and scope in OF_ADMIN)]


async def test_every_operation_needs_a_valid_key_with_its_scopes(target: Target) -> None:
    revoked = await target.new_key(f"gone-{uuid4().hex}", SCOPES)
    await revoke(target, revoked)
    account = f"other-{uuid4().hex}"
    lacking = {scope: await target.new_key(account, without(scope)) for scope in SCOPES}
    anomalies: list[Any] = []
    async with victims.a_victim(target) as victim, target.client() as http:
        for operation, needed in victims.MATRIX.items():
            wrong = [("rt_" + "x" * 43, 401), (revoked, 401), *((lacking[scope], 403) for scope in needed)]
            for key, expected in wrong:
                http.headers["Authorization"] = f"Bearer {key}"
                answer = await victims.send(http, operation, victim)
                if answer.status_code != expected or victims.SECRET in answer.text:
                    anomalies.append((operation, key, answer.status_code, answer.text))

    assert anomalies == []


async def test_the_scopes_of_an_operation_are_enough(target: Target) -> None:
    account = f"exact-{uuid4().hex}"
    keys = {scopes: await target.new_key(account, scopes) for scopes in set(victims.MATRIX.values())}
    # These bodies answer requests for consent, which needs more.
    consents = {"/v1/ag-ui/{graphId}", "/v1/ai-sdk/{graphId}/chat"}
    anomalies: list[Any] = []
    async with victims.a_victim(target) as victim, target.client() as http:
        for operation, needed in victims.MATRIX.items():
            http.headers["Authorization"] = f"Bearer {keys[needed]}"
            answer = await victims.send(http, operation, victim)
            expected = 403 if operation[1] in consents else None
            if answer.status_code in {401, 403} and answer.status_code != expected:
                anomalies.append((operation, answer.status_code, answer.text))

    assert anomalies == []


async def test_nothing_of_another_account_is_seen_or_changed(target: Target) -> None:
    key = await target.new_key(f"other-{uuid4().hex}", TENANT)
    # Last, those that start something of their own account, under the victim's ids.
    theirs = [operation for operation in victims.MATRIX if victims.NAMED.search(operation[1])]
    others = [operation for operation in victims.MATRIX if operation not in theirs]
    anomalies: list[Any] = []
    async with victims.a_victim(target) as victim, target.client(key) as other_client:
        before = await victim.state()
        ids = (
            *(victim.run_id, victim.chat, victim.session_id, victim.schedule_id, victim.batch_id),
            *(victim.key_id, victim.job_id, victim.deployment_id),
        )
        for operation in [*theirs, *sorted(others, key=lambda each: each[0] != "GET")]:
            answer = await victims.send(other_client, operation, victim)
            if operation in theirs and answer.status_code not in {204, 403, 404}:
                anomalies.append((operation, answer.status_code, answer.text))
            # The requests of lists name nothing of the victim's.
            hidden = ids if operation in others and operation[0] == "GET" else ()
            if any(each in answer.text for each in (victims.SECRET, victim.webhook_id, *hidden)):
                anomalies.append((operation, "shows", answer.text))
        after = await victim.state()

    assert anomalies == []
    assert after == before


class TestAKeyThatMayOnlyWrite:
    """Beside others of its account, it knows what it has started itself."""

    async def test_it_reads_nothing_that_other_keys_have_asked(self, target: Target) -> None:
        async with victims.a_victim(target) as victim:
            scopes: tuple[Scope, ...] = tuple(scope for scope in TENANT if scope != "runs:read")
            before = await victim.state()
            async with target.client(await target.new_key(victim.account, scopes)) as writer:
                answers = {
                    name: await writer.post(path, json=body)
                    for name, (path, body) in ways_to_read(victim).items()
                }
            after = await victim.state()

        refusals = {name: (answer.status_code, victims.detail_of(answer)) for name, answer in answers.items()}
        assert refusals == dict.fromkeys(answers, (403, "This API key lacks the scope runs:read."))
        assert after == before

    async def test_it_deletes_nothing_but_its_own(self, target: Target) -> None:
        own = a_request("hello", runId=uuid4().hex, stateKey=uuid4().hex)
        of_its_own = [f"/v1/runs/{own['runId']}", f"/v1/sessions/{own['stateKey']}"]
        async with victims.a_victim(target) as victim:
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
            await reader.post("/v1/runs/wait", json=a_request(victims.SECRET, stateKey=chat))
            forked = (await reader.post(f"/v1/sessions/{chat}/fork", json={})).json()["stateKey"]
            refused = [
                await writer.post("/v1/runs/wait", json={**onward, "stateKey": key}) for key in (chat, forked)
            ]

        assert [answer.status_code for answer in refused] == [403, 403]


@pytest.mark.parametrize("is_same_account", [True, False])
async def test_no_wire_shows_or_changes_the_run_of_another_key(
    target: Target, *, is_same_account: bool
) -> None:
    scopes: tuple[Scope, ...] = tuple(scope for scope in TENANT if scope != "runs:read")
    async with victims.a_victim(target) as victim:
        account = victim.account if is_same_account else f"other-{uuid4().hex}"
        key = await target.new_key(account, scopes if is_same_account else TENANT)
        before = await victim.state()
        async with target.client(key) as other:
            answers = {
                name: await other.post(path, **options)
                for name, (path, options) in ways_to_name_a_run(victim).items()
            }
        after = await victim.state()

    assert {name: answer.text for name, answer in answers.items() if victims.SECRET in answer.text} == {}
    accepted = {
        name: answer.text
        for name, answer in answers.items()
        if answer.status_code == 200 and "error" not in answer.json()
    }
    assert accepted == {}
    assert after == before


def ways_to_name_a_run(victim: victims.Victim) -> dict[str, tuple[str, dict[str, Any]]]:
    """Requests of other wires whose bodies name a run of the victim: where, and what."""
    asked = {"model": ASSISTANT, "input": [{"role": "user", "content": "What did I say?"}]}
    tasks: dict[str, dict[str, Any]] = {"get": {}, "cancel": {}, "update": {"inputResponses": {}}}
    response, tool = f"resp_{victim.run_id}", ASSISTANT.replace(":", "__")
    called = a_call(tool, "hi", arguments={"message": "hi", "conversation": f"run:{victim.run_id}"})
    reference = {"type": "item_reference", "id": f"msg_{victim.run_id}~0.0"}
    output = {"type": "function_call_output", "call_id": f"{victim.run_id}--x", "output": "yes"}
    result = {"role": "tool", "tool_call_id": f"{victim.run_id}--x", "content": "yes"}
    responses = "/openai/v1/responses"
    return {
        "a response before": (responses, {"json": {**asked, "previous_response_id": response}}),
        "an item of a response": (responses, {"json": {**asked, "input": [reference, *asked["input"]]}}),
        "a call of a response": (responses, {"json": {**asked, "input": [output]}}),
        "a call of a completion": (
            "/openai/v1/chat/completions",
            {"json": {"model": ASSISTANT, "messages": [result]}},
        ),
        "a run over MCP": ("/mcp", modern(called)),
        "a form over MCP": ("/mcp", modern(a_call(tool, "hi", requestState=victim.run_id))),
        **{
            f"{method} of MCP": ("/mcp", modern(of_task(method, victim.run_id, **more), **WITH_TASKS))
            for method, more in tasks.items()
        },
    }


def ways_to_read(victim: victims.Victim) -> dict[str, tuple[str, Any]]:
    """Requests whose answers would show something of the victim's conversation."""
    same = a_request(victims.SECRET, runId=victim.run_id, stateKey=victim.chat)
    onward = a_request("What did I say?", stateKey=victim.chat)
    guess = [
        {"role": "user", "content": "a guess"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "and now?"},
    ]
    question = {"id": uuid4().hex, "role": "user", "parts": [{"type": "text", "text": "What did I say?"}]}
    thread = {"threadId": victim.chat, "messages": [{"id": "u-1", "role": "user", "content": victims.SECRET}]}
    agent = f"/v1/ag-ui/{ASSISTANT}"
    return {
        "the same run": ("/v1/runs", same),
        "its events": ("/v1/runs/stream", same),
        "its end": ("/v1/runs/wait", same),
        "whether a body is its": ("/v1/runs", {**same, "messages": guess}),
        "as a prompt": ("/v1/generate/text", {"prompt": victims.SECRET, "runId": victim.run_id}),
        "as an AG-UI agent": (agent, {**thread, "runId": victim.run_id}),
        "the agent's memory": ("/v1/runs/wait", onward),
        "whether a history is its": ("/v1/runs", {**onward, "messages": guess}),
        "its thread": (agent, {**thread, "runId": uuid4().hex}),
        "its chat": (f"/v1/ai-sdk/{ASSISTANT}/chat", {"id": victim.chat, "messages": [question]}),
        "its schedule": (f"/v1/schedules/{victim.schedule_id}/trigger", {}),
        "a copy": (f"/v1/sessions/{victim.chat}/fork", {}),
        "its session": (
            f"{victims.MANAGED}/{victim.session_id}/events",
            {"events": [victims.said("What did I say?")]},
        ),
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
