"""Every operation of the API, called with tokens of end users: it is closed, or shows what is their own."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import httpx
import pytest

from app.auth.tokens.checks import SKEW_S
from app.http.admission.checks import CheckedRoute
from app.http.admission.end_users import OPEN_TO_END_USERS
from app.http.routers import ROUTERS
from app.requests.principal import Scope
from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from app.simulator.server import Simulator
from tests.e2e.agents import MESSAGES, named
from tests.e2e.stories import a_request
from tests.e2e.test_a_client_brings_tools import COLOR, PICK, settings
from tests.patience import PATIENCE_S
from tests.security.conftest import OpenTarget
from tests.security.server import ASSISTANT, Target
from tests.security.test_accounts_are_apart import ways_to_read
from tests.security.test_revoked_credentials import a_hanging_run
from tests.security.victims import MATRIX, NAMED, SECRET, Victim, a_victim, send
from tests.token_issuers import IssuerOfTokens, an_issuer

_PARTS = (operation.partition(" ") for operation in OPEN_TO_END_USERS)
OPEN = {(method, path.replace(":path}", "}")) for method, _, path in _PARTS}
CHAT = f"/v1/ai-sdk/{ASSISTANT}/chat"
AGENT = f"/v1/ag-ui/{ASSISTANT}"


@dataclass(frozen=True, slots=True)
class House:
    """A server that accepts the tokens of an issuer."""

    target: Target
    issuer: IssuerOfTokens

    def client(self, account: str, end_user: str, **claims: Any) -> httpx.AsyncClient:
        """The browser of an end user."""
        return self.target.client(self.issuer.token(end_user, org=account, **claims))


class OpenHouse(Protocol):
    """The fixture `open_house`."""

    def __call__(
        self, provider_url: str | None = None, **settings: str
    ) -> AbstractAsyncContextManager[House]:
        """`async with open_house() as house:` serves while the body runs."""
        ...


@pytest.fixture
def open_house(open_target_here: OpenTarget, model_url: str) -> OpenHouse:
    """A server with an issuer that is given every account."""

    @asynccontextmanager
    async def opened(provider_url: str | None = None, **settings: str) -> AsyncIterator[House]:
        async with an_issuer() as issuer:
            setting = json.dumps([issuer.setting(account=None, accountClaim="org", accounts=["*"])])
            settings["RUNTALLY_JWT_ISSUERS"] = setting
            async with open_target_here(provider_url or model_url, **settings) as target:
                yield House(target, issuer)

    return opened


async def seen_by(client: httpx.AsyncClient, victim: Victim) -> list[Any]:
    """What an end user sees of their run and conversation."""
    paths = f"/v1/runs/{victim.run_id}", f"/v1/sessions/{victim.chat}", f"/v1/sessions/{victim.chat}/branches"
    return [(await client.get(path)).raise_for_status().json() for path in paths]


def test_what_is_open_is_there_and_needs_a_scope() -> None:
    there_are = {
        f"{method} {route.path}"
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, CheckedRoute) and route.scopes
        for method in route.methods or ()
    }

    assert OPEN_TO_END_USERS.keys() - there_are == set()


async def test_every_other_operation_is_closed(open_house: OpenHouse) -> None:
    anomalies: list[Any] = []
    async with (
        open_house() as house,
        a_victim(house.target) as victim,
        house.client(victim.account, "ann") as ann,
    ):
        before = await victim.state()
        for operation in MATRIX.keys() - OPEN:
            answer = await send(ann, operation, victim)
            if answer.status_code != 403 or "not open to tokens of end users" not in answer.text:
                anomalies.append((operation, answer.status_code, answer.text))
        after = await victim.state()

    assert anomalies == []
    assert after == before


async def test_nothing_of_another_end_user_is_seen_or_changed(open_house: OpenHouse) -> None:
    anomalies: list[Any] = []
    theirs = sorted(OPEN, key=lambda operation: NAMED.search(operation[1]) is None)
    async with (
        open_house() as house,
        a_victim(house.target) as victim,
        house.client(victim.account, "ann") as ann,
        house.client(victim.account, "bob") as bob,
    ):
        before = await seen_by(ann, victim)
        for operation in theirs:
            answer = await send(bob, operation, victim)
            if NAMED.search(operation[1]) and answer.status_code not in {204, 403, 404}:
                anomalies.append((operation, answer.status_code, answer.text))
            if any(secret in answer.text for secret in (SECRET, victim.run_id, victim.chat)):
                anomalies.append((operation, "shows", answer.text))
        after = await seen_by(ann, victim)

    assert anomalies == []
    assert after == before


async def test_an_end_user_sees_their_own_wherever_it_is_open(open_house: OpenHouse, tmp_path: Path) -> None:
    async with (
        Simulator(named(MESSAGES, picking)) as model,
        open_house(model.url, **settings(tmp_path)) as house,
        house.client("default", "ann") as ann,
        house.client("default", "bob") as bob,
    ):
        calls = {name: await a_waiting_call(client, name) for name, client in (("ann", ann), ("bob", bob))}
        lists = {path: [(await client.get(path)).text for client in (ann, bob)] for path in LISTS}
        sums = [(await client.get("/v1/usage")).json()["total"] for client in (ann, bob)]
        own = [await ann.get(path) for path in OWN]
        answered = await ann.post(f"/v1/runs/run-ann/tool-results/{calls['ann']}", json={"result": "red"})
        stopped = await bob.post(f"/v1/ai-sdk/{HELPER}/chat/chat-bob/stop")
        onward = await ann.post("/v1/runs/wait", json=a_request("on", graphId=HELPER, stateKey="chat-ann"))
        deleted = [await ann.delete(path) for path in ("/v1/runs/run-ann", "/v1/sessions/chat-ann")]

    assert {
        path: [[name in text for name in ("-ann", "-bob")] for text in texts] for path, texts in lists.items()
    } == {path: [[True, False], [False, True]] for path in LISTS}
    assert [each["receipts"] for each in sums] == [1, 1]
    assert [answer.status_code for answer in own] == [200] * len(OWN)
    assert (answered.status_code, stopped.status_code) == (200, 202)
    assert onward.json()["ok"]
    assert [answer.status_code for answer in deleted] == [204, 204]


HELPER = f"{MESSAGES}:helper"
LISTS = (
    *("/v1/runs", "/v1/approvals", "/v1/sessions", "/v1/receipts"),
    *(f"/v1/ag-ui/{HELPER}/threads", f"/v1/ai-sdk/{HELPER}/chats"),
)
OWN = (
    *("/v1/runs/run-ann", "/v1/runs/run-ann/receipts", "/v1/runs/run-ann/files"),
    *("/v1/sessions/chat-ann", "/v1/sessions/chat-ann/branches", "/v1/sessions/chat-ann/grants"),
    *(f"/v1/ag-ui/{HELPER}/threads/chat-ann/messages", f"/v1/ai-sdk/{HELPER}/chat/chat-ann/messages"),
)


def picking(request: ApiRequest) -> Reply:
    """Call the client's tool if the user says so."""
    return Reply([ToolUse(PICK, {"about": "sky"}) if request.last_text == "pick" else Text("ok")])


async def a_waiting_call(client: httpx.AsyncClient, name: str) -> str:
    """The call of a client tool that a run of this end user waits for."""
    body = a_request("pick", graphId=HELPER, runId=f"run-{name}", stateKey=f"chat-{name}")
    started = await client.post("/v1/runs", json={**body, "clientTools": [COLOR]})
    assert started.status_code == 202, started.text
    async with asyncio.timeout(PATIENCE_S):
        while not (items := (await client.get("/v1/approvals")).json()["items"]):
            await asyncio.sleep(0.02)
        # Receipts are stored a moment later.
        while not (await client.get("/v1/receipts")).json()["items"]:
            await asyncio.sleep(0.02)
    found: str = items[0]["requestId"]
    return found


async def test_no_body_names_what_another_end_user_has(open_house: OpenHouse) -> None:
    async with (
        open_house() as house,
        a_victim(house.target) as victim,
        house.client(victim.account, "bob") as bob,
    ):
        answers = [await bob.post(path, json=body) for path, body in ways_to_read(victim).values()]
        named = a_request("hi", endUser="ann")
        as_ann = [
            await bob.post("/v1/runs", json=named),
            await bob.post("/v1/generate/text", json={"prompt": "hi", "endUser": "ann"}),
            await bob.get("/v1/runs", params={"endUser": "ann"}),
            await bob.get("/v1/receipts", params={"endUser": "ann"}),
            await bob.get("/v1/usage", params={"endUser": "ann"}),
        ]

    assert {answer.status_code for answer in answers} <= {403, 404}
    # Errors of Managed Agents have no code.
    assert {answer.json().get("code") for answer in answers} == {
        *("other_end_user", "closed_to_end_users", "run_not_found", None)
    }
    assert [(answer.status_code, answer.json()["errors"][0]["field"]) for answer in as_ann] == [
        (422, "endUser")
    ] * len(as_ann)


async def test_a_conversation_with_others_and_a_copy_are_closed(open_house: OpenHouse) -> None:
    account, chat = "acme", uuid4().hex
    async with (
        open_house() as house,
        house.target.client(await house.target.new_key(account)) as backend,
        house.client(account, "ann") as ann,
    ):
        await backend.post("/v1/runs/wait", json=a_request("hello", stateKey=chat, endUser="ann"))
        own = await ann.post("/v1/runs/wait", json=a_request("and now?", stateKey=chat))
        copy = (await backend.post(f"/v1/sessions/{chat}/fork", json={})).json()["stateKey"]
        await backend.post("/v1/runs/wait", json=a_request(SECRET, stateKey=chat))
        refused = [
            *[await ann.get(f"/v1/sessions/{key}") for key in (chat, copy)],
            *[await ann.post("/v1/runs", json=a_request("?", stateKey=key)) for key in (chat, copy)],
        ]
        listed = (await ann.get("/v1/sessions")).json()["items"]

    assert own.json()["ok"]
    assert [answer.status_code for answer in refused] == [404, 404, 403, 403]
    assert listed == []


async def test_chat_frontends_work_with_tokens(open_house: OpenHouse) -> None:
    thread = uuid4().hex
    messages = [{"role": "user", "content": "hello"}]
    posted = {"threadId": thread, "messages": [{"id": "u-1", "role": "user", "content": "hello"}]}
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    async with (
        open_house() as house,
        house.client("default", "ann") as ann,
        house.client("default", "bob") as bob,
    ):
        nothing = await ann.get(f"{CHAT}/{uuid4().hex}/stream")
        agent = await ann.post(AGENT, json={**posted, "runId": uuid4().hex})
        chat = await ann.post(CHAT, json={"id": uuid4().hex, "messages": [question]})
        history = await ann.get(f"{AGENT}/threads/{thread}/messages")
        graphs = await ann.get("/v1/graphs")
        body: dict[str, Any] = {"model": ASSISTANT, "messages": messages}
        # Neither shares the other's conversation, though both say the same.
        for client in (ann, bob):
            first = await client.post("/openai/v1/chat/completions", json=body)
            answer = first.raise_for_status().json()["choices"][0]["message"]
            onward = [*messages, {"role": "assistant", "content": answer["content"]}, *messages]
            second = await client.post("/openai/v1/chat/completions", json={**body, "messages": onward})
            assert second.status_code == 200, second.text
        once = [
            (await client.post("/v1/runs", json=a_request("hi"), headers={"Idempotency-Key": "1"})).json()
            for client in (ann, ann, bob)
        ]
        kept = [len((await client.get("/v1/sessions")).json()["items"]) for client in (ann, bob)]

    assert nothing.status_code == 204
    assert '"type":"RUN_FINISHED"' in agent.text
    assert '"type":"finish"' in chat.text
    assert [message["role"] for message in history.json()] == ["user", "assistant"]
    assert graphs.json()["items"] != []
    assert once[0]["runId"] == once[1]["runId"] != once[2]["runId"]
    assert kept == [3, 1]


async def test_scopes_and_graphs_are_those_of_the_setting(
    open_target_here: OpenTarget, model_url: str
) -> None:
    few: list[Scope] = ["runs:write"]
    async with an_issuer() as issuer:
        setting = json.dumps([issuer.setting(account="default", scopes=few, graphs=["messages:other"])])
        async with (
            open_target_here(model_url, RUNTALLY_JWT_ISSUERS=setting) as target,
            target.client(issuer.token()) as ann,
        ):
            answers = [await ann.get("/v1/runs"), await ann.post("/v1/runs", json=a_request("hi"))]
            expired = await ann.get("/v1/runs", headers=bearer(issuer.token(exp=1)))
            wrong = await ann.get("/v1/runs", headers=bearer(issuer.token(aud="x")))

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [
        (403, "forbidden"),
        (403, "graph_not_allowed"),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in (expired, wrong)] == [
        (401, "token_expired"),
        (401, "token_refused"),
    ]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_readers_are_counted_by_end_user(open_house: OpenHouse) -> None:
    async with (
        open_house(RUNTALLY_MAX_READERS_PER_KEY="1") as house,
        house.client("default", "ann") as ann,
        house.client("default", "bob") as bob,
    ):
        run_id, own = await a_hanging_run(ann), await a_hanging_run(bob)
        async with ann.stream("GET", f"/v1/runs/{run_id}/events") as first:
            second = await ann.get(f"/v1/runs/{run_id}/events")
            async with bob.stream("GET", f"/v1/runs/{own}/events") as other:
                statuses = first.status_code, second.status_code, other.status_code
        for client, run in ((ann, run_id), (bob, own)):
            await client.post(f"/v1/runs/{run}/cancel")

    assert statuses == (200, 429, 200)


async def test_a_stream_ends_with_its_token(open_house: OpenHouse) -> None:
    async with open_house() as house, house.client("default", "ann") as ann:
        run_id, received = await a_hanging_run(ann), b""
        path = f"/v1/runs/{run_id}/events"
        # A token is accepted for a minute after its end: so many seconds are left to open the stream.
        for left_s in (3, 30, 300):
            token = house.issuer.token("ann", org="default", exp=house.issuer.now + left_s - SKEW_S)
            async with ann.stream("GET", path, headers=bearer(token)) as stream:
                if stream.status_code == 200:
                    received = await stream.aread()
                    break
        again = await ann.get(path, headers=bearer(token))
        await ann.post(f"/v1/runs/{run_id}/cancel")

    assert received.endswith(b": The API key was revoked, or the session has ended.\n")
    assert (again.status_code, again.json()["code"]) == (401, "token_expired")
