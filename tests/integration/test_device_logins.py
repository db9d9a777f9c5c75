"""Claude Code signs in to this server: the device flow as its CLI speaks it, and attacks on it."""

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from app.requests.attribution import KeyLabels
from app.simulator.script import Reply, Text
from tests.e2e.stories import World, WorldOf, a_client
from tests.factories import a_budget
from tests.integration.external_calls import EXTERNAL, call, error_of, new_key, sessions

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
AGENT = {"user-agent": "claude-code/2.1.230"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def world(world_of: WorldOf) -> World:
    return await world_of(lambda _: Reply([Text("ok")]))


async def post(world: World, path: str, **form: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=world.url, trust_env=False, timeout=60) as device:
        return await device.post(f"/anthropic/oauth/{path}", data=form, headers={**FORM, **AGENT})


async def begun(world: World) -> dict[str, Any]:
    found: dict[str, Any] = (await post(world, "device_authorization", surface="claude_code")).json()
    return found


async def poll(world: World, codes: dict[str, Any]) -> httpx.Response:
    return await post(world, "token", grant_type=DEVICE, device_code=codes["device_code"])


async def refreshed(world: World, token: str) -> httpx.Response:
    return await post(world, "token", grant_type="refresh_token", refresh_token=token)


async def decide(world: World, key: str, codes: dict[str, Any], decision: str = "allow") -> httpx.Response:
    async with a_client(world.url, key) as person:
        return await person.post(f"/v1/logins/{codes['user_code']}", json={"decision": decision})


async def signed_in(world: World, key: str) -> dict[str, Any]:
    codes = await begun(world)
    assert (await decide(world, key, codes)).status_code == 204
    tokens: dict[str, Any] = (await poll(world, codes)).raise_for_status().json()
    return tokens


async def change(world: World, assignment: str) -> None:
    """Let time pass for the logins of this server."""
    async with world.services.database.transaction() as tx:
        await tx.execute(text(f"UPDATE device_logins SET {assignment}"))  # noqa: S608 - constants


def failed(answer: httpx.Response) -> tuple[int, str]:
    assert answer.json()["error_description"]
    return answer.status_code, answer.json()["error"]


async def test_a_person_signs_it_in_and_it_calls_the_model_for_them(world: World) -> None:
    key = await new_key(world, "acme", labels=KeyLabels.of(end_user="anna", fixed=True))
    metadata = (await world.http.get("/anthropic/.well-known/oauth-authorization-server")).json()
    codes = await begun(world)
    early = await poll(world, codes)
    hasty = await poll(world, codes)
    async with a_client(world.url, key) as person:
        shown = (await person.get(f"/v1/logins/{codes['user_code']}")).json()
    await decide(world, key, codes)
    await change(world, "polled_at = polled_at - interval '5 s'")
    tokens = (await poll(world, codes)).json()
    again = await poll(world, codes)
    async with a_client(world.url, tokens["access_token"]) as claude, a_client(world.url, key) as person:
        answer = await call(claude)
        other = await call(claude, metadata={"user_id": "bob"})
        closed = [await claude.get("/v1/runs"), await claude.get("/v1/keys")]
        (run,) = await sessions(person)

    assert metadata["token_endpoint"] == f"{world.url}/anthropic/oauth/token"
    assert (codes["interval"], codes["expires_in"]) == (5, 600)
    assert codes["verification_uri_complete"] == f"{world.url}/device?user_code={codes['user_code']}"
    assert (failed(early), failed(hasty)) == ((400, "authorization_pending"), (400, "slow_down"))
    assert (shown["client"], shown["address"]) == (AGENT["user-agent"], "127.0.0.1")
    assert failed(again) == (401, "invalid_grant")
    assert (tokens["token_type"], tokens["expires_in"], tokens["email"]) == ("Bearer", 3600, "anna (acme)")
    assert (answer.status_code, run["endUser"]) == (200, "anna")
    assert other.status_code == 400
    assert [each.status_code for each in closed] == [403, 403]


async def test_refresh_tokens_are_used_once(world: World) -> None:
    key = await new_key(world, "acme")
    tokens = await signed_in(world, key)
    first = (await refreshed(world, tokens["refresh_token"])).json()
    repeated = (await refreshed(world, tokens["refresh_token"])).json()
    async with a_client(world.url, first["access_token"]) as claude:
        before = await call(claude)
        await change(world, "refreshed_at = refreshed_at - interval '2 minutes'")
        stolen = await refreshed(world, tokens["refresh_token"])
        after = await call(claude)
    ended = await refreshed(world, first["refresh_token"])

    assert first["refresh_token"] == repeated["refresh_token"] != tokens["refresh_token"]
    assert first["access_token"] != repeated["access_token"]
    assert failed(stolen) == failed(ended) == (401, "invalid_grant")
    assert (before.status_code, error_of(after)[:2]) == (200, (401, "authentication_error"))
    assert after.headers["x-should-retry"] == "false"


async def test_a_login_ends_with_a_sign_out_its_key_or_the_key_of_its_person(world: World) -> None:
    key = await new_key(world, "acme", (*EXTERNAL, "keys:write"))
    for kind in ("access_token", "refresh_token"):
        tokens = await signed_in(world, key)
        out = [await post(world, "revoke", token=tokens[kind]) for _ in range(2)]
        async with a_client(world.url, tokens["access_token"]) as claude:
            assert (await call(claude)).status_code == 401
        assert [each.status_code for each in out] == [200, 200]
        assert failed(await refreshed(world, tokens["refresh_token"])) == (401, "invalid_grant")

    tokens = await signed_in(world, key)
    async with a_client(world.url, key) as person, a_client(world.url, tokens["access_token"]) as claude:
        newest = (await person.get("/v1/accounts/acme/keys")).json()["items"][0]
        await person.delete(f"/v1/keys/{newest['id']}")
        revoked = await call(claude)
    assert (newest["scopes"], newest["graphs"]) == (["external:write"], ["external:anthropic"])
    assert revoked.status_code == 401

    tokens = await signed_in(world, key)
    record = await world.services.accounts.authenticate(key)
    await world.services.accounts.revoke_key(record.api_key_id)
    assert failed(await refreshed(world, tokens["refresh_token"])) == (401, "invalid_grant")


async def test_a_code_is_decided_about_once_and_in_time(world: World) -> None:
    key, attacker = await new_key(world, "acme"), await new_key(world, "globex")
    codes = await begun(world)
    await decide(world, key, codes)
    late = [await decide(world, attacker, codes), await decide(world, attacker, codes, "deny")]
    denied = await begun(world)
    await decide(world, key, denied, "deny")
    after_denial = await decide(world, key, denied)
    expired = await begun(world)
    await change(world, f"expires_at = now() WHERE user_code = '{expired['user_code']}'")
    too_late = await decide(world, key, expired)

    assert [each.status_code for each in (*late, after_denial, too_late)] == [404] * 4
    assert (await poll(world, codes)).json()["email"] == "acme"
    assert failed(await poll(world, denied)) == (400, "access_denied")
    assert failed(await poll(world, expired)) == (400, "expired_token")
    keys = [
        each for each in await world.services.accounts.list_keys() if (each.name or "").startswith("login")
    ]
    assert [each.account for each in keys] == ["acme"]


async def test_only_those_who_may_call_the_model_approve_and_give_no_more(world: World) -> None:
    codes = await begun(world)
    lacking = await decide(world, await new_key(world, "acme", ["runs:write"]), codes)
    elsewhere = await decide(world, await new_key(world, "acme", graphs=["claude_agents:*"]), codes)
    tokens = await signed_in(world, await new_key(world, "acme", models=["claude-haiku-4-5"]))
    async with a_client(world.url, tokens["access_token"]) as claude:
        refused = await call(claude)
        nested = await claude.post(f"/v1/logins/{codes['user_code']}", json={"decision": "allow"})

    assert (lacking.status_code, elsewhere.status_code) == (403, 403)
    assert error_of(refused)[:2] == (403, "permission_error")
    assert (nested.status_code, nested.json()["code"]) == (403, "of_login")
    assert failed(await poll(world, codes)) == (400, "authorization_pending")


async def test_no_login_passes_the_budget_of_the_key_of_its_person(world: World) -> None:
    key = await new_key(world, "acme")
    person = await world.services.accounts.authenticate(key)
    budget = a_budget(scope="key", match=str(person.api_key_id), credits=0)
    await world.services.budgets.set_budget(person.account_id, budget)
    tokens = await signed_in(world, key)

    async with a_client(world.url, key) as own, a_client(world.url, tokens["access_token"]) as claude:
        answers = [await call(own), await call(claude)]

    assert [each.status_code for each in answers] == [402, 402]


async def test_codes_are_not_guessed_and_logins_not_begun_without_end(world: World) -> None:
    async with a_client(world.url, await new_key(world, "acme")) as person:
        guesses = [await person.get("/v1/logins/BBBB-BBBB") for _ in range(12)]
    begins = await asyncio.gather(*(post(world, "device_authorization") for _ in range(34)))

    assert [each.status_code for each in guesses][:10] == [404] * 10
    assert guesses[-1].status_code == 429
    refused = [each for each in begins if each.status_code != 200]
    assert {failed(each) for each in refused} == {(429, "slow_down")}


FORMS: list[tuple[dict[str, str], str]] = [
    ({}, "unsupported_grant_type"),
    ({"grant_type": "password"}, "unsupported_grant_type"),
    ({"grant_type": DEVICE}, "invalid_request"),
    ({"grant_type": DEVICE, "device_code": "x"}, "invalid_grant"),
    ({"grant_type": "refresh_token", "refresh_token": "x.y"}, "invalid_grant"),
    ({"grant_type": "refresh_token", "refresh_token": "\x00."}, "invalid_grant"),
]


async def test_forms_that_name_no_login(world: World) -> None:
    for form, error in FORMS:
        assert failed(await post(world, "token", **form))[1] == error, form


async def test_pages_of_others_cannot_approve(world: World) -> None:
    codes = await begun(world)
    key = await new_key(world, "acme")
    async with httpx.AsyncClient(base_url=world.url, trust_env=False, timeout=60) as browser:
        own = {"sec-fetch-site": "same-origin"}
        (await browser.post("/v1/browser-session", json={"apiKey": key}, headers=own)).raise_for_status()
        path, body = f"/v1/logins/{codes['user_code']}", {"decision": "allow"}
        foreign = await browser.post(path, json=body, headers={"sec-fetch-site": "cross-site"})
        ours = await browser.post(path, json=body, headers=own)

    assert (foreign.status_code, ours.status_code) == (403, 204)
