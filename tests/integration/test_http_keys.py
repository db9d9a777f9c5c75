"""Accounts, keys and the audit log over HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import httpx
import pytest

from app.auth.records import Credential
from app.ids import ApiKeyId
from app.platform.db import StatementFailed
from app.requests.principal import SCOPES
from tests.batches import JSON_LINES, a_line, joined
from tests.e2e.stories import ASSISTANT, World, a_client, a_request
from tests.integration.conftest import in_shared_world
from tests.integration.statements import execute, scalar

pytestmark = in_shared_world

LATER, EARLIER = (datetime.now(UTC) + timedelta(days=days) for days in (20, 10))
MANAGER = ("runs:write", "runs:read", "keys:write")


class Made(NamedTuple):
    """A key that was made over HTTP."""

    id: str
    account: str
    secret: str


async def new_account(world: World) -> str:
    """An account of a test's own."""
    name = f"tenant-{uuid4().hex}"
    (await world.http.post("/v1/accounts", json={"name": name})).raise_for_status()
    return name


async def new_key(world: World, account: str | None = None, **body: Any) -> Made:
    """A key that an operator makes, of an account of its own if none is named."""
    name = account or await new_account(world)
    made = await world.http.post(f"/v1/accounts/{name}/keys", json={"scopes": MANAGER, **body})
    assert made.status_code == 201, made.text
    return Made(made.json()["id"], name, made.json()["key"])


@asynccontextmanager
async def holder(world: World, **body: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Made]]:
    """A client with a key of an account of its own."""
    made = await new_key(world, **body)
    async with a_client(world.url, made.secret) as http:
        yield http, made


async def status_of(world: World, secret: str) -> tuple[int, str | None]:
    """What a key is answered, and the error."""
    async with a_client(world.url, secret) as http:
        answer = await http.get("/v1/runs")
    return answer.status_code, answer.json().get("code")


async def test_an_account_is_created_and_renamed(world: World) -> None:
    name, other = f"a-{uuid4().hex}", await new_account(world)
    made = await world.http.post("/v1/accounts", json={"name": name})
    again = await world.http.post("/v1/accounts", json={"name": name})
    wrong = await world.http.post("/v1/accounts", json={"name": "no spaces here"})
    key = await new_key(world, name)
    taken = await world.http.patch(f"/v1/accounts/{name}", json={"name": other})
    renamed = await world.http.patch(f"/v1/accounts/{name}", json={"name": f"{name}.new", "mode": "prepaid"})
    gone = await world.http.get(f"/v1/accounts/{name}")

    assert (made.status_code, made.json()["name"], made.json()["suspendedAt"]) == (201, name, None)
    assert (again.status_code, again.json()["code"]) == (409, "account_name_taken")
    assert wrong.status_code == 422
    assert (taken.status_code, taken.json()["code"]) == (409, "account_name_taken")
    assert (renamed.json()["account"], renamed.json()["mode"]) == (f"{name}.new", "prepaid")
    assert gone.status_code == 404
    assert await status_of(world, key.secret) == (200, None)


async def test_a_key_is_shown_once_with_what_it_may_do(world: World) -> None:
    account = await new_account(world)
    body = {
        "name": "nightly",
        "scopes": ["runs:write"],
        "expiresAt": LATER.isoformat().replace("+00:00", "Z"),
        "graphs": [ASSISTANT],
        "models": ["claude-haiku-*"],
        "limits": {"requestsPerMinute": 60, "concurrentRuns": 2, "tokensPerMinute": 90_000},
    }
    made = (await world.http.post(f"/v1/accounts/{account}/keys", json=body)).json()
    listed = (await world.http.get(f"/v1/accounts/{account}/keys")).json()["items"]
    past = await world.http.post(
        f"/v1/accounts/{account}/keys", json={**body, "expiresAt": "2020-01-01T00:00:00Z"}
    )
    unknown = await world.http.post("/v1/accounts/nowhere/keys", json=body)

    assert made.pop("key").startswith(made["prefix"])
    assert listed == [made]
    assert {name: made[name] for name in body} == body
    assert (past.status_code, past.json()["errors"][0]["field"]) == (422, "expiresAt")
    assert unknown.status_code == 404


async def test_an_expired_key_is_refused_as_a_revoked_one(world: World) -> None:
    made = await new_key(world, expiresAt=LATER.isoformat())
    before = await status_of(world, made.secret)
    credential = Credential(ApiKeyId(UUID(made.id)), None)
    valid = await world.services.accounts.find_valid_credentials({credential})
    await execute(
        world.services.database, "UPDATE api_keys SET expires_at = now() WHERE id = :id", id=UUID(made.id)
    )

    assert (before, valid) == ((200, None), {credential})
    assert await status_of(world, made.secret) == (401, "unauthenticated")
    assert await world.services.accounts.find_valid_credentials({credential}) == set()
    assert await world.services.accounts.find_active_keys({credential.api_key_id}) == set()


FULL = {"scopes": MANAGER}
GIVEN: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "fewer scopes": (FULL, {"scopes": ["runs:read"]}, None),
    "a scope more": (FULL, {"scopes": ["runs:read", "receipts:read"]}, "scopes"),
    "an operator": (FULL, {"scopes": ["admin"]}, "scopes"),
    "a later end": ({"expiresAt": EARLIER}, {"expiresAt": LATER}, "expiresAt"),
    "a graph of a pattern": ({"graphs": ["messages:*"]}, {"graphs": ["messages:assistant"]}, None),
    "a narrower pattern": ({"graphs": ["messages:*"]}, {"graphs": ["messages:a*"]}, None),
    "another graph": ({"graphs": ["messages:a"]}, {"graphs": ["messages:b"]}, "graphs"),
    "a graph more": ({"graphs": ["messages:a"]}, {"graphs": ["messages:a", "messages:b"]}, "graphs"),
    "a wider pattern": ({"graphs": ["messages:a*"]}, {"graphs": ["messages:*"]}, "graphs"),
    "a model of a pattern": ({"models": ["claude-haiku-*"]}, {"models": ["claude-haiku-5-5"]}, None),
    "another model": ({"models": ["claude-haiku-*"]}, {"models": ["claude-opus-5-5"]}, "models"),
    "fewer requests": ({"limits": {"requestsPerMinute": 9}}, {"limits": {"requestsPerMinute": 8}}, None),
    "more requests": ({"limits": {"requestsPerMinute": 9}}, {"limits": {"requestsPerMinute": 10}}, "limits"),
    "more runs": ({"limits": {"concurrentRuns": 1}}, {"limits": {"concurrentRuns": 2}}, "limits"),
}


@pytest.mark.parametrize("case", GIVEN)
async def test_a_key_gives_at_most_what_it_has(world: World, case: str) -> None:
    own, wanted, field = GIVEN[case]
    plain = [
        {name: value.isoformat() if isinstance(value, datetime) else value for name, value in each.items()}
        for each in (own, {"scopes": MANAGER, **wanted})
    ]
    async with holder(world, **plain[0]) as (http, made):
        given = await http.post(f"/v1/accounts/{made.account}/keys", json=plain[1])

    if field is None:
        assert given.status_code == 201, given.text
    else:
        assert (given.status_code, given.json()["code"]) == (403, "exceeds_own_rights")
        assert given.json()["detail"].startswith(f"{field}: ")


async def test_what_is_not_asked_for_is_as_with_the_giver(world: World) -> None:
    own = {
        "expiresAt": LATER.isoformat().replace("+00:00", "Z"),
        "graphs": ["messages:*"],
        "models": ["haiku"],
        "limits": {"requestsPerMinute": 500, "concurrentRuns": 3, "tokensPerMinute": None},
    }
    async with holder(world, **own) as (http, made):
        path = f"/v1/accounts/{made.account}/keys"
        child = (await http.post(path, json={"scopes": ["runs:read"]})).json()
        rotated = (await http.post(f"/v1/keys/{child['id']}/rotate")).json()

    assert {name: child[name] for name in own} == {name: rotated[name] for name in own} == own


async def test_stronger_keys_and_those_of_others_are_out_of_reach(world: World) -> None:
    others = await new_key(world)
    async with holder(world, graphs=["messages:*"]) as (http, made):
        stronger = await new_key(world, made.account, scopes=list(SCOPES))
        unrestricted = await new_key(world, made.account)
        limited = await new_key(world, made.account, graphs=["messages:*"], limits={"concurrentRuns": 1})
        rotated = {
            key: await http.post(f"/v1/keys/{key.id}/rotate") for key in (stronger, unrestricted, others)
        }
        allowed = await http.post(f"/v1/keys/{limited.id}/rotate")
        revoked = [await http.delete(f"/v1/keys/{key.id}") for key in (stronger, others, unrestricted)]
        foreign = [
            await http.get(f"/v1/accounts/{others.account}/keys"),
            await http.post(f"/v1/accounts/{others.account}/keys", json={"scopes": ["runs:read"]}),
            await http.get("/v1/audit", params={"account": others.account}),
        ]

    codes = [(answer.status_code, answer.json()["code"]) for answer in rotated.values()]
    assert codes == [(403, "exceeds_own_rights"), (403, "exceeds_own_rights"), (404, "key_not_found")]
    assert allowed.status_code == 201, allowed.text
    assert [answer.status_code for answer in revoked] == [403, 404, 200]
    assert [answer.status_code for answer in foreign] == [404] * 3
    assert await status_of(world, stronger.secret) == (200, None)


async def test_a_rotated_key_ends_after_the_overlap_and_hands_its_schedules_on(world: World) -> None:
    async with holder(world) as (http, made):
        schedule = {"scheduleId": uuid4().hex, "cron": "0 0 1 1 *", "run": a_request()}
        (await http.post("/v1/schedules", json=schedule)).raise_for_status()
        first = (await http.post(f"/v1/keys/{made.id}/rotate", json={"overlapS": 3600})).json()
        during = [await status_of(world, secret) for secret in (made.secret, first["key"])]
        # It has an end by now, and the other key has none.
        weaker = await http.post(f"/v1/keys/{first['id']}/rotate")
    second = (await world.http.post(f"/v1/keys/{first['id']}/rotate", json={"overlapS": 0})).json()
    ended = await status_of(world, first["key"])
    again = await world.http.post(f"/v1/keys/{first['id']}/rotate")
    owner = await scalar(
        world.services.database,
        "SELECT api_key_id FROM schedules WHERE schedule_id = :id",
        id=schedule["scheduleId"],
    )

    assert during == [(200, None), (200, None)]
    assert (weaker.status_code, weaker.json()["code"]) == (403, "exceeds_own_rights")
    assert ended == (401, "unauthenticated")
    assert (again.status_code, again.json()["code"]) == (409, "key_ended")
    assert await status_of(world, second["key"]) == (200, None)
    assert str(owner) == second["id"]


Send = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


def sending(method: str, path: str, **options: Any) -> Send:
    """A request, to be sent by any client."""

    async def send(http: httpx.AsyncClient) -> httpx.Response:
        return await http.request(method, path, **options)

    return send


def ways_to_start(schedule: str) -> dict[str, Send]:
    """Every request that starts a run of the assistant, or orders one."""
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    said = [{"id": "1", "role": "user", "content": "hi"}]
    thread = {"threadId": uuid4().hex, "runId": uuid4().hex, "messages": said}
    plan = {"cron": "0 0 1 1 *", "run": a_request()}
    bodies: dict[str, Any] = {
        **dict.fromkeys(("/v1/runs", "/v1/runs/stream", "/v1/runs/wait", "/v1/runs/preview"), a_request()),
        "/v1/generate/text": {"prompt": "hi"},
        "/v1/generate/object": {"prompt": "hi", "schema": {"type": "object"}},
        f"/v1/ag-ui/{ASSISTANT}": thread,
        f"/v1/ai-sdk/{ASSISTANT}/chat": {"id": uuid4().hex, "messages": [question]},
        "/openai/v1/chat/completions": {"model": ASSISTANT, "messages": said},
        "/openai/v1/responses": {"model": ASSISTANT, "input": "hi"},
        "/v1/schedules": plan,
        **{f"/v1/schedules/{schedule}/{verb}": None for verb in ("trigger", "resume")},
    }
    lines = joined([a_line("1", "hi", graph=ASSISTANT)])
    batches = ("/v1/batches", "/v1/batches/preview")
    return {
        **{path: sending("POST", path, json=body) for path, body in bodies.items()},
        **{path: sending("POST", path, content=lines, headers=JSON_LINES) for path in batches},
        "a change": sending("PATCH", f"/v1/schedules/{schedule}", json={"run": a_request()}),
    }


@pytest.mark.parametrize(
    ("terms", "code"),
    [
        ({"graphs": ["messages:nothing"]}, "graph_not_allowed"),
        ({"models": ["claude-x-*"]}, "model_not_allowed"),
    ],
)
async def test_a_restricted_key_starts_nothing_else_on_any_way(
    world: World, terms: dict[str, Any], code: str
) -> None:
    async with holder(world) as (owner, made):
        schedule = uuid4().hex
        body = {"scheduleId": schedule, "cron": "0 0 1 1 *", "run": a_request()}
        (await owner.post("/v1/schedules", json=body)).raise_for_status()
        restricted = await new_key(world, made.account, **terms)
        async with a_client(world.url, restricted.secret) as http:
            answers = {name: await send(http) for name, send in ways_to_start(schedule).items()}
            runs = (await http.get("/v1/runs")).json()["items"]
            graphs = (await http.get("/v1/graphs")).json()["items"]
            models = (await http.get("/v1/models")).json()["items"]

    # Errors of OpenAI's API have a form of their own.
    codes = {name: answer.json().get("error", answer.json())["code"] for name, answer in answers.items()}
    assert {answer.status_code for answer in answers.values()} == {403}
    assert codes == dict.fromkeys(answers, code)
    assert runs == []
    assert (graphs if "graphs" in terms else models) == []


async def test_a_model_may_be_allowed_by_its_alias(world: World) -> None:
    async with holder(world, models=["haiku"], graphs=["*:assistant"]) as (http, _):
        allowed = await http.post("/v1/runs/preview", json=a_request(model="haiku"))
        refused = await http.post("/v1/runs/preview", json=a_request(model="opus"))
        listed = (await http.get("/v1/models")).json()["items"]
        graphs = (await http.get("/v1/graphs")).json()["items"]

    assert allowed.status_code == 200, allowed.text
    assert refused.json()["code"] == "model_not_allowed"
    assert ["haiku" in model["aliases"] for model in listed] == [True]
    assert {graph["id"].partition(":")[2] for graph in graphs} == {"assistant"}


async def test_requests_are_limited_together_with_those_of_keys_made_with_a_key(world: World) -> None:
    async with holder(world, limits={"requestsPerMinute": 3}) as (http, made):
        given = await http.post(f"/v1/accounts/{made.account}/keys", json={"scopes": ["runs:read"]})
        child = given.json()["key"]
        # Within the same moment of an idle machine; a slow one may have earned a request by now.
        answers = [await status_of(world, child) for _ in range(20)]
        own = [(await http.get("/v1/runs")).status_code for _ in range(10)]

    assert (429, "rate_limit") in answers
    assert 429 in own


async def test_a_suspended_account_is_refused_until_it_is_resumed(world: World) -> None:
    made = await new_key(world)
    credential = Credential(ApiKeyId(UUID(made.id)), None)
    path = f"/v1/accounts/{made.account}"
    async with a_client(world.url, made.secret) as http:
        later = {"startAfter": LATER.isoformat()}
        (await http.post("/v1/runs", json=a_request(runId="r1", **later))).raise_for_status()
        suspended = (await world.http.patch(path, json={"suspended": True, "stopRuns": True})).json()
        refused = await http.post("/v1/runs", json=a_request())
    valid = await world.services.accounts.find_valid_credentials({credential})
    active = await world.services.accounts.find_active_keys({credential.api_key_id})
    resumed = (await world.http.patch(path, json={"suspended": False})).json()
    async with a_client(world.url, made.secret) as http:
        run = (await http.get("/v1/runs/r1")).json()

    assert suspended["suspendedAt"] is not None
    assert suspended["stoppedRuns"] == 1
    assert (refused.status_code, refused.json()["code"]) == (403, "account_suspended")
    assert (valid, active) == (set(), {credential.api_key_id})
    assert (resumed["suspendedAt"], resumed["stoppedRuns"]) == (None, 0)
    assert run["runId"] == "r1"


async def test_an_account_cannot_suspend_itself(world: World) -> None:
    own = await world.http.patch("/v1/accounts/default", json={"suspended": True})
    unclear = await world.http.patch("/v1/accounts/default", json={"stopRuns": True})

    assert (own.status_code, own.json()["code"]) == (409, "own_account")
    assert unclear.status_code == 422


async def test_every_change_is_in_the_audit_log(world: World) -> None:
    async with holder(world) as (http, made):
        path = f"/v1/accounts/{made.account}"
        child = (await http.post(f"{path}/keys", json={"scopes": ["runs:read"]})).json()
        rotated = (await http.post(f"/v1/keys/{child['id']}/rotate")).json()
        for _ in range(2):
            await http.delete(f"/v1/keys/{rotated['id']}", headers={"X-Request-ID": "req-7"})
        for body in ({"mode": "prepaid"}, {"suspended": True}, {"suspended": False}):
            await world.http.patch(path, json=body)
        for kind in ("grants", "adjustments"):
            await world.http.post(f"{path}/{kind}", json={"usd": "1", "note": "n"})
        own = (await http.get("/v1/audit")).json()["items"]
        page = (await http.get("/v1/audit", params={"limit": 2})).json()
        rest = (await http.get("/v1/audit", params={"cursor": page["nextCursor"]})).json()["items"]
        of_action = (await http.get("/v1/audit", params={"action": "key.revoked"})).json()["items"]
        none = (await http.get("/v1/audit", params={"to": own[-1]["at"]})).json()["items"]
    seen = (await world.http.get("/v1/audit", params={"account": made.account})).json()["items"]

    assert [entry["action"] for entry in reversed(own)] == [
        *("account.created", "key.created", "key.created", "key.rotated", "key.revoked"),
        *("account.terms_changed", "account.suspended", "account.resumed"),
        *("credit.grant", "credit.adjustment"),
    ]
    assert page["items"] + rest == own
    assert none == []
    (revoked,) = of_action
    assert (revoked["actorKeyId"], revoked["requestId"]) == (made.id, "req-7")
    assert (revoked["via"], revoked["address"], revoked["target"]) == ("http", "127.0.0.1", rotated["id"])
    by_operators = [entry for entry in own if entry["actorKeyId"] is None]
    assert len(by_operators) == 7
    assert all(entry["address"] is None and entry["requestId"] is None for entry in by_operators)
    assert len(seen) == len(own)
    assert all(entry["actorKeyId"] and entry["address"] for entry in seen)
    terms = next(entry for entry in seen if entry["action"] == "account.terms_changed")
    assert (terms["before"]["mode"], terms["after"]["mode"]) == ("postpaid", "prepaid")
    assert all(secret["key"] not in str(seen) for secret in (child, rotated))


@pytest.mark.parametrize("statement", ["UPDATE {} SET action = 'x'", "DELETE FROM {}", "TRUNCATE {}"])
async def test_the_audit_log_cannot_be_changed(world: World, statement: str) -> None:
    with pytest.raises(StatementFailed, match="never changed"):
        await execute(world.services.database, statement.format("audit_entries"))
