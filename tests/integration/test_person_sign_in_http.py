"""The way of a browser to the issuer and back, its cookies, and where it may be led."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.platform.issuers.persons import CALLBACK
from app.simulator.script import Reply, Text, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import World, WorldOf, a_request
from tests.integration.test_browser_sessions import OURS, SESSION, a_browser
from tests.oidc_provider import START, OidcProvider, a_provider, path_of, sign_in

METHODS = f"{SESSION}/methods"


@asynccontextmanager
async def a_house(
    world_of: WorldOf, **settings: str | None
) -> AsyncIterator[tuple[World, OidcProvider, httpx.AsyncClient]]:
    """A server with a provider and the account `acme`, and a browser."""
    async with a_provider() as provider:
        world = await world_of(lambda _: Reply([Text("Hello.")]), **provider.settings(**settings))
        await world.services.accounts.create_account("acme")
        async with a_browser(world, **OURS) as browser:
            yield world, provider, browser


def parts(response: httpx.Response, cookie: str) -> set[str]:
    """What a response says of a cookie, but its value."""
    lines = response.headers.get_list("set-cookie")
    (line,) = (line for line in lines if line.startswith(f"{cookie}=") and "Max-Age=0" not in line)
    return {part.strip().lower() for part in line.split(";")[1:]}


async def test_a_person_signs_in_talks_and_signs_out(world_of: WorldOf) -> None:
    async with a_house(world_of) as (world, provider, browser):
        methods = (await browser.get(METHODS)).json()
        begun = await browser.get(START, params={"next": "/billing?run=a%2Fb"})
        answered = await browser.get(begun.headers["location"])
        back = await browser.get(path_of(answered.headers["location"]))
        who = (await browser.get(SESSION)).json()
        body = a_request(graphId=f"{MESSAGES}:assistant", stateKey="anns")
        run = (await browser.post("/v1/runs/wait", json=body)).json()
        listed = (await browser.get("/v1/sessions")).json()["items"]
        for_another = await browser.post("/v1/runs", json={**body, "endUser": "bob"})
        left = await browser.delete(SESSION, headers=OURS)
        after = await browser.get(SESSION)
        ended = await browser.get(left.json()["continueAt"])
        record = (await world.http.get("/v1/keys")).json()

    assert methods == {"oidcHost": provider.url.removeprefix("http://")}
    assert parts(begun, "runtally_sign_in") == {"httponly", "path=/", "samesite=lax", "max-age=600"}
    assert (back.status_code, path_of(back.headers["location"])) == (303, "/billing?run=a%2Fb")
    assert parts(back, "runtally_session") == {"httponly", "path=/", "samesite=strict", "max-age=28800"}
    assert "runtally_sign_in" not in browser.cookies
    assert all(each.headers["cache-control"] == "no-store" for each in (begun, back))
    assert who["person"] == {"name": "Ann", "endUser": "ann", "role": "user"}
    assert run["ok"], run
    assert [each["stateKey"] for each in listed] == ["anns"]
    assert for_another.status_code == 422
    assert (left.status_code, after.status_code) == (200, 204)
    assert path_of(ended.headers["location"]) == "/"
    assert "ann" not in str(record)


async def test_problems_lead_back_to_the_page_in_our_words(world_of: WorldOf) -> None:
    async with a_house(world_of) as (_, provider, browser):
        provider.answers = {"error": "access_denied", "error_description": "<b>Call 555</b>"}
        denied = await sign_in(browser)
        provider.answers = {}
        begun = await browser.get(START)
        answer = path_of((await browser.get(begun.headers["location"])).headers["location"])
        twice = await browser.get(f"{answer}&state=x")
        used = await browser.get(answer)
        provider.person["groups"] = []
        no_role = await sign_in(browser)
        last = await browser.get(f"{CALLBACK}?code=x&state=y")

    answers = (denied, twice, used, no_role, last)
    assert {each.status_code for each in answers} == {303}
    assert [path_of(each.headers["location"]) for each in answers] == [
        "/?problem=sign_in_denied",
        "/?problem=sign_in_expired",
        # The first answer of this attempt has ended it.
        "/?problem=sign_in_expired",
        "/?problem=no_role",
        "/?problem=sign_in_expired",
    ]
    assert "runtally_session" not in browser.cookies


ELSEWHERE: list[str] = ["//a.example", "https://a.example", "/docs", "/\\a.example", "/?a=\n"]


async def test_a_sign_in_leads_to_no_other_site(world_of: WorldOf) -> None:
    async with a_house(world_of) as (_, _, browser):
        for page in ELSEWHERE:
            refused = await browser.get(START, params={"next": page})

            assert refused.status_code == 422, page
            assert refused.json()["errors"][0]["field"] == "next"


async def test_over_https_the_cookies_are_of_this_host_only(world_of: WorldOf) -> None:
    url = f"https://runtally.example.org/base{CALLBACK}"
    async with a_house(world_of, REDIRECT_URL=url) as (_, provider, browser):
        provider.redirect_url = url
        begun = await browser.get(START)
        answered = await browser.get(begun.headers["location"])
        cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
        path = path_of(answered.headers["location"]).removeprefix("/base")
        plain = await browser.get(path, headers={"Cookie": cookie["Cookie"].removeprefix("__Host-")})
        back = await browser.get(path, headers=cookie)

    assert {"secure", "httponly"} <= parts(begun, "__Host-runtally_sign_in")
    assert {"secure", "httponly"} <= parts(back, "__Host-runtally_session")
    assert plain.headers["location"] == "https://runtally.example.org/base/?problem=sign_in_expired"
    assert back.headers["location"] == "https://runtally.example.org/base/"


async def test_without_an_issuer_there_are_only_keys(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    async with a_browser(world) as browser:
        answers: list[Any] = [await browser.get(path) for path in (METHODS, START, CALLBACK)]

    assert answers[0].json() == {"oidcHost": None}
    assert [each.json()["code"] for each in answers[1:]] == ["oidc_not_configured"] * 2
