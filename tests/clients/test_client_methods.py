"""Both public clients have a method for each operation of the OpenAPI document; or here is why not."""

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from runtally import AsyncClient, Client, Forbidden
from tests.api_document import api_document
from tests.clients.node import HERE, install_client, node

URL, KEY, GRAPH = "http://127.0.0.1:1", "rt_key", "messages:assistant"
FOR_OTHERS = (
    # The clients of these protocols.
    *("/v1/ag-ui/", "/v1/ai-sdk/", "/openai/", "/mcp", "/.well-known/", "/anthropic/"),
    "/managed-agents/",
    # What sets an application up: any HTTP client, or one that is generated.
    *("/v1/schedules", "/v1/webhooks", "/v1/end-users", "/v1/erasures"),
    # Operators, who have commands and pages.
    *("/v1/alarms", "/v1/chain", "/v1/fleet", "/v1/prices", "/v1/usage/cache-misses"),
    *("/v1/exports", "/v1/ledger", "/v1/reconciliation", "/v1/statements"),
    # What watches the server, and its pages.
    *("/healthz", "/readyz", "/metrics", "/v1/browser-session", "/v1/shared", "/v1/logins"),
)
LEFT_OUT = {
    "follow_batch": "`batches.watch` looks the batch up, and needs no open connection",
    "wait_for_run": "sent for keys that may not read runs: test_a_key_that_may_not_read_runs_joins_its_own",
    "list_keys": "`accounts.keys` shows more of each",
    "generate_text": "`run` of a graph does the same, and can be joined",
    "generate_object": "`run` with `response_schema`",
}
METHODS: dict[str, Callable[[Any], Any]] = {
    "start_run": lambda client: client.start(GRAPH, "hi"),
    "stream_run": lambda client: client.stream(GRAPH, "hi"),
    "follow_run": lambda client: client.follow("r"),
    "preview_run": lambda client: client.preview(GRAPH, "hi"),
    "list_runs": lambda client: client.list_runs(status="waiting"),
    "get_run": lambda client: client.get("r"),
    "delete_run": lambda client: client.delete("r"),
    "change_run": lambda client: client.change("r", permission_mode="plan"),
    "run_request": lambda client: client.request("r"),
    "run_evidence": lambda client: client.evidence("r"),
    "give_feedback": lambda client: client.give_feedback("r", "up"),
    "run_receipts": lambda client: client.run_receipts("r"),
    "send_message": lambda client: client.send("r", "hi"),
    "interrupt_run": lambda client: client.interrupt("r"),
    "cancel_run": lambda client: client.cancel("r"),
    "decide": lambda client: client.decide("r", "q", allow=True),
    "submit_tool_result": lambda client: client.submit_tool_result("r", "t", 1),
    "answer_question": lambda client: client.answer("r", "q", None),
    "list_approvals": lambda client: client.approvals(),
    "list_files": lambda client: client.files("r"),
    "download_file": lambda client: client.read_file("r", "a/b.txt"),
    "download_archive": lambda client: client.archive("r"),
    "create_batch": lambda client: client.batches.create_from(b"{}"),
    "preview_batch": lambda client: client.batches.preview(b"{}"),
    "list_batches": lambda client: client.batches.list(),
    "get_batch": lambda client: client.batches.get("b"),
    "cancel_batch": lambda client: client.batches.cancel("b"),
    "delete_batch": lambda client: client.batches.delete("b"),
    "batch_results": lambda client: client.batches.results("b"),
    "list_budgets": lambda client: client.budgets.list(),
    "get_budget": lambda client: client.budgets.get("b"),
    "set_budget": lambda client: client.budgets.set(
        "b", scope="account", window="day", tokens=1, mode="hard"
    ),
    "delete_budget": lambda client: client.budgets.delete("b"),
    "set_top_up": lambda client: client.budgets.set_top_up(below_usd=Decimal(1), amount_usd=Decimal(5)),
    "delete_top_up": lambda client: client.budgets.delete_top_up(),
    "list_accounts": lambda client: client.accounts.list(),
    "create_account": lambda client: client.accounts.create("a"),
    "get_account": lambda client: client.accounts.get("a"),
    "change_account": lambda client: client.accounts.retain("a", events_days=7),
    "grant": lambda client: client.accounts.grant("a", Decimal(5)),
    "adjust": lambda client: client.accounts.adjust("a", Decimal(-1), note="n"),
    "list_account_keys": lambda client: client.accounts.keys("a"),
    "create_key": lambda client: client.accounts.create_key("a", ["runs:read"]),
    "rotate_key": lambda client: client.accounts.rotate_key("k"),
    "revoke_key": lambda client: client.accounts.revoke_key("k"),
    "list_audit_entries": lambda client: client.accounts.audit(),
    "list_sessions": lambda client: client.conversations.list(),
    "get_session": lambda client: client.conversations.get("s"),
    "delete_session": lambda client: client.conversations.delete("s"),
    "list_branches": lambda client: client.conversations.branches("s"),
    "return_to_branch": lambda client: client.conversations.return_to("s", "b"),
    "list_workspace": lambda client: client.conversations.files("s"),
    "list_grants": lambda client: client.conversations.grants("s"),
    "revoke_grant": lambda client: client.conversations.revoke("s", "g"),
    "change_session": lambda client: client.conversations.change("s", title="x"),
    "export_session": lambda client: client.conversations.export("s"),
    "create_share": lambda client: client.conversations.share("s"),
    "list_shares": lambda client: client.conversations.shares("s"),
    "revoke_share": lambda client: client.conversations.revoke_share("s", "h"),
    "fork_session": lambda client: client.conversations.fork("s"),
    "list_receipts": lambda client: client.receipts(),
    "usage": lambda client: client.usage(),
    "balance": lambda client: client.balance(),
    "list_graphs": lambda client: client.graphs(),
    "list_tools": lambda client: client.tools(),
    "list_models": lambda client: client.models(),
}


def operations() -> Iterator[tuple[str, str, str]]:
    """Id, method and path of each operation that is not for others."""
    for path, item in api_document()["paths"].items():
        if not path.startswith(FOR_OTHERS):
            for method, operation in item.items():
                yield operation["operationId"], method.upper(), path


def matches(sent: list[str], method: str, path: str) -> bool:
    """Whether a request is the operation's."""
    pattern = re.sub(r"\{path\}", "[^ ]+", path)
    return sent[0] == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), sent[1]) is not None


def wrong(sent: dict[str, list[str]]) -> list[str]:
    """The operations that these first requests of a client's methods do not reach."""
    return [
        name
        for name, *operation in operations()
        if name not in LEFT_OUT and not matches(sent.get(name, ["", ""]), *operation)
    ]


async def test_each_operation_is_a_method_of_the_python_clients() -> None:
    sent: list[list[str]] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append([request.method, request.url.path])
        return httpx.Response(403, json={})

    transport = httpx.MockTransport(refuse)
    found: list[dict[str, list[str]]] = [{}, {}]
    with Client(URL, KEY, transport=transport) as client:
        for name, call in METHODS.items():
            with suppress(Forbidden):
                result = call(client)
                next(iter(result))
            found[0][name] = sent[0]
            sent.clear()
    async with AsyncClient(URL, KEY, transport=transport) as async_client:
        for name, call in METHODS.items():
            with suppress(Forbidden):
                result = call(async_client)
                await (result if inspect.isawaitable(result) else anext(aiter(result)))
            found[1][name] = sent[0]
            sent.clear()

    assert [wrong(each) for each in found] == [[], []]
    assert {*METHODS, *LEFT_OUT} == {name for name, *_ in operations()}


async def test_each_operation_is_a_method_of_the_typescript_client(tmp_path: Path) -> None:
    await asyncio.to_thread(install_client, tmp_path)
    program = tmp_path / "program.mjs"
    program.write_text((HERE / "client_methods.mjs").read_text())

    sent = json.loads(await node(str(program)))

    assert wrong(sent) == []
    assert sent.keys() == METHODS.keys()
