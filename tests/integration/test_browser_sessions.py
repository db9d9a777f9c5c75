from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.auth.accounts import Accounts
from app.auth.browser_sessions import BrowserSessions, SessionEnded
from app.errors import Unauthenticated
from app.platform.db import Database
from app.requests.principal import SCOPES
from app.simulator.script import in_turn
from tests.e2e.stories import KEY, World, WorldOf, a_request
from tests.integration.conftest import in_shared_world
from tests.integration.statements import execute, rows, scalar
from tests.patience import PATIENCE_S

FRIEND = "https://chat.example.org"
OURS = {"Sec-Fetch-Site": "same-origin"}
SESSION = "/v1/browser-session"
CHANGES: list[tuple[str, str, Any]] = [
    ("POST", "/v1/runs", a_request(graphId="messages:assistant")),
    ("POST", "/v1/runs/nope/cancel", None),
    ("PATCH", "/v1/runs/nope", {"permissionMode": "plan"}),
    ("DELETE", "/v1/sessions/nope", None),
    ("DELETE", SESSION, None),
]


def a_browser(world: World, **headers: str) -> httpx.AsyncClient:
    """A client that has no API key, and keeps cookies."""
    return httpx.AsyncClient(base_url=world.url, headers=headers, timeout=PATIENCE_S, trust_env=False)


async def signed_in(browser: httpx.AsyncClient) -> httpx.Response:
    """Sign in with the world's key."""
    response = await browser.post(SESSION, json={"apiKey": KEY})
    assert response.status_code == 200, response.text
    return response


@in_shared_world
async def test_a_session_has_the_scopes_of_its_key(world: World) -> None:
    async with a_browser(world) as browser:
        assert (await browser.get(SESSION)).status_code == 204
        assert (await browser.get("/v1/runs")).status_code == 401
        entered = await signed_in(browser)
        who = await browser.get(SESSION)
        runs = await browser.get("/v1/runs")
        left = await browser.delete(SESSION, headers=OURS)
        after = await browser.get("/v1/runs")

    assert entered.json() == who.json()
    assert who.json() | {"expiresAt": ""} == {
        "account": "default",
        "keyName": "bootstrap",
        "keyPrefix": KEY[:7],
        "scopes": list(SCOPES),
        "expiresAt": "",
        "person": None,
    }
    assert who.headers["cache-control"] == "no-store"
    assert (runs.status_code, left.status_code, after.status_code) == (200, 204, 401)


@in_shared_world
async def test_signing_out_invalidates_copies_of_the_cookie(world: World) -> None:
    async with a_browser(world) as browser, a_browser(world) as thief:
        await signed_in(browser)
        thief.cookies.update(browser.cookies)
        assert (await thief.get("/v1/runs")).status_code == 200
        await browser.delete(SESSION, headers=OURS)

        assert (await thief.get("/v1/runs")).status_code == 401
        assert (await thief.get(SESSION)).status_code == 204


@in_shared_world
async def test_signing_in_again_ends_the_previous_session(world: World) -> None:
    async with a_browser(world) as browser, a_browser(world) as earlier:
        await signed_in(browser)
        earlier.cookies.update(browser.cookies)
        await signed_in(browser)

        assert (await browser.get("/v1/runs")).status_code == 200
        assert (await earlier.get("/v1/runs")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "name", "secure"),
    [
        ({}, "runtally_session", False),
        ({"X-Forwarded-Proto": "https"}, "__Host-runtally_session", True),
        ({"Origin": FRIEND}, "__Host-runtally_session", True),
    ],
    ids=["http", "https", "https that the proxy does not tell of"],
)
async def test_scripts_cannot_read_the_cookie_and_other_sites_cannot_send_it(
    world_of: WorldOf, headers: dict[str, str], name: str, *, secure: bool
) -> None:
    world = await world_of(in_turn(), RUNTALLY_CORS_ORIGINS=FRIEND)

    async with a_browser(world, **headers) as browser:
        cookie = (await signed_in(browser)).headers["set-cookie"]

    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert cookie.startswith(f"{name}=")
    assert parts >= {"httponly", "samesite=strict", "path=/", "max-age=604800"}
    assert ("secure" in parts, any(part.startswith("domain") for part in parts)) == (secure, False)


@in_shared_world
async def test_over_https_only_the_host_cookie_is_accepted(world: World) -> None:
    async with a_browser(world) as browser:
        await signed_in(browser)
        planted = await browser.get("/v1/runs", headers={"X-Forwarded-Proto": "https"})

    assert planted.status_code == 401


@in_shared_world
@pytest.mark.parametrize(
    "behind",
    [
        {"Host": "chat.example.org"},
        {"Host": "chat.example.org", "X-Forwarded-For": "203.0.113.7"},
        {"X-Forwarded-For": "203.0.113.7"},
        {"Forwarded": "for=203.0.113.7"},
        {"X-Forwarded-Proto": "https, http"},
    ],
    ids=["host passed on", "as usual", "host not passed on", "by RFC 7239", "by two proxies"],
)
async def test_a_sibling_host_cannot_plant_a_session_behind_a_proxy_that_hides_https(
    world: World, behind: dict[str, str]
) -> None:
    async with a_browser(world) as attacker:
        await signed_in(attacker)
        planted = f"runtally_session={attacker.cookies['runtally_session']}"

    async with a_browser(world, **behind) as victim:
        alone = await victim.get("/v1/runs", headers={"Cookie": planted})
        beside = await victim.get(
            "/v1/runs", headers={"Cookie": f"__Host-runtally_session={'x' * 43}; {planted}"}
        )
        who = await victim.get(SESSION, headers={"Cookie": planted})

    assert (alone.status_code, beside.status_code, who.status_code) == (401, 401, 204)


@in_shared_world
async def test_the_host_cookie_takes_precedence_over_a_planted_one(world: World) -> None:
    _, other = await world.services.accounts.create_key("attacker", ["runs:read"])
    async with a_browser(world) as attacker, a_browser(world, Origin="https://chat.example.org") as victim:
        planted = await attacker.post(SESSION, json={"apiKey": other})
        own = await world.services.browser_sessions.open(KEY)
        cookies = f"{planted.headers['set-cookie'].partition(';')[0]}; __Host-runtally_session={own.token}"
        who = await victim.get(SESSION, headers={"Cookie": cookies})

    assert who.json()["account"] == "default"


@in_shared_world
async def test_signing_in_over_plain_http_from_another_machine_is_rejected(world: World) -> None:
    async with a_browser(world, Host="192.168.1.5:8000", Origin="http://192.168.1.5:8000") as browser:
        refused = await browser.post(SESSION, json={"apiKey": KEY})

    assert (refused.status_code, refused.json()["code"]) == (403, "https_required")
    assert "set-cookie" not in refused.headers


async def test_an_operator_can_allow_signing_in_over_plain_http(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_ALLOW_HTTP_SIGN_IN=True)
    async with a_browser(world, Host="192.168.1.5:8000", Origin="http://192.168.1.5:8000") as browser:
        cookie = (await signed_in(browser)).headers["set-cookie"].partition(";")[0]
        runs = await browser.get("/v1/runs", headers={"Cookie": cookie})
        by_https = await browser.get("/v1/runs", headers={"Cookie": cookie, "X-Forwarded-Proto": "https"})

    assert (runs.status_code, by_https.status_code) == (200, 401)


async def test_a_session_is_rejected_for_pages_of_other_sites(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_CORS_ORIGINS=FRIEND)
    foreign = [
        {},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": world.url},
        {"Origin": "null"},
        {"Origin": "https://evil.example.org"},
        {"Origin": f"{FRIEND}.evil.net"},
    ]

    async with a_browser(world) as browser:
        await signed_in(browser)
        refused = [
            (sent, method, path, response.status_code, response.json()["code"])
            for sent in foreign
            for method, path, json in CHANGES
            for response in [await browser.request(method, path, json=json, headers=sent)]
            if (response.status_code, response.json()["code"]) != (403, "foreign_page")
        ]
        runs = await browser.get("/v1/runs", headers={"Origin": "null"})

    assert refused == []
    # What only reads is kept from other pages by the browser.
    assert (runs.status_code, runs.json()["items"]) == (200, [])


async def test_a_session_is_accepted_for_our_pages_and_allowed_origins(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_CORS_ORIGINS=FRIEND)
    ours = [
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": world.url},
        {"Origin": FRIEND, "Sec-Fetch-Site": "same-site"},
    ]

    async with a_browser(world) as browser:
        for sent in ours:
            await signed_in(browser)
            for method, path, json in CHANGES:
                response = await browser.request(method, path, json=json, headers=sent)
                assert response.status_code in {202, 204, 404}, (sent, method, path, response.text)


@in_shared_world
async def test_a_page_of_another_site_cannot_sign_in(world: World) -> None:
    async with a_browser(world, Origin="https://evil.example.org") as browser:
        posted = await browser.post(SESSION, json={"apiKey": KEY})
        form = await browser.post(SESSION, content=b'{"apiKey": ""}', headers={"Content-Type": "text/plain"})

    assert (posted.status_code, posted.json()["code"]) == (403, "foreign_page")
    assert form.status_code == 415
    assert "set-cookie" not in posted.headers


@in_shared_world
async def test_an_api_key_takes_precedence_over_the_cookie(world: World) -> None:
    _, other = await world.services.accounts.create_key("other", ["runs:read"])

    async with a_browser(world) as browser:
        await signed_in(browser)
        forbidden = await browser.post(
            "/v1/runs", json=a_request(), headers={"Authorization": f"Bearer {other}"}
        )
        wrong = await browser.get("/v1/runs", headers={"Authorization": "Bearer rt_" + "x" * 43})

    # Nor is it asked whose page this is: no browser adds an API key by itself.
    assert (forbidden.status_code, forbidden.json()["code"]) == (403, "forbidden")
    assert wrong.status_code == 401


@in_shared_world
async def test_an_invalid_key_opens_no_session(world: World) -> None:
    async with a_browser(world) as browser:
        for key in ("", "rt_", "rt_" + "x" * 43, "x" * 301):
            response = await browser.post(SESSION, json={"apiKey": key})
            assert response.status_code in {401, 422}, key
            assert "xxx" not in response.text
            assert "set-cookie" not in response.headers
        planted = await browser.get("/v1/runs", headers={"Cookie": "runtally_session=x"})

    assert planted.status_code == 401


async def test_a_session_ends_with_its_key(database: Database) -> None:
    accounts = Accounts(database)
    sessions = BrowserSessions(database, accounts)
    key, secret = await accounts.create_key("acme", ["runs:read"])
    opened = await sessions.open(secret)

    assert (await sessions.authenticate(opened.token)).account_id == key.account_id
    await accounts.revoke_key(key.id)

    with pytest.raises(SessionEnded):
        await sessions.authenticate(opened.token)
    with pytest.raises(Unauthenticated):
        await sessions.open(secret)


async def test_an_expired_session_is_rejected_and_deleted(database: Database) -> None:
    accounts = Accounts(database)
    sessions = BrowserSessions(database, accounts)
    _, secret = await accounts.create_key("acme", ["runs:read"])
    opened = await sessions.open(secret)
    await execute(database, "UPDATE browser_sessions SET expires_at = now()")

    with pytest.raises(SessionEnded):
        await sessions.authenticate(opened.token)
    await sessions.open(secret)
    assert await scalar(database, "SELECT expires_at - created_at FROM browser_sessions") == timedelta(days=7)


async def test_session_tokens_are_stored_as_hashes(database: Database) -> None:
    accounts = Accounts(database)
    _, secret = await accounts.create_key("acme", ["runs:read"])
    opened = await BrowserSessions(database, accounts).open(secret)

    ((shown, kept),) = await rows(database, "SELECT browser_sessions::text, token_hash FROM browser_sessions")

    assert opened.token not in shown
    assert opened.token.encode() not in kept
