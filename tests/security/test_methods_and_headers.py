"""What every path answers to whoever has no key: which methods it takes, and how its answers are kept."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.patience import PATIENCE_S
from tests.security.conftest import OpenTarget
from tests.security.server import Target

METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PAGES = ("/", "/approvals", "/billing", "/console", "/docs", "/docs/guide")


async def test_every_405_lists_the_allowed_methods(target: Target) -> None:
    async with httpx.AsyncClient(base_url=target.url, timeout=PATIENCE_S) as nobody:
        document: dict[str, Any] = (await nobody.get("/openapi.json")).json()
        wrong = []
        for path, operations in document["paths"].items():
            documented = {method.upper() for method in operations}
            allowed = documented | ({"HEAD"} if "GET" in documented else set())
            answer = await nobody.request("TRACE", re.sub(r"{\w+}", "x", path))
            named = set(answer.headers.get("allow", "").split(", "))
            if (answer.status_code, named) != (405, allowed):
                wrong.append((path, answer.status_code, named))
        refused = [await nobody.request(method, "/v1/balance") for method in METHODS]

    assert wrong == []
    assert {answer.status_code for answer in refused} == {405}


async def test_every_parameter_that_is_unknown_or_given_twice_is_refused(target: Target) -> None:
    """One that is misspelt would select everything, and one that is given twice half of what is asked."""
    async with target.client() as http:
        document: dict[str, Any] = (await http.get("/openapi.json")).json()
        queries = list(wrong_queries(document))
        wrong = []
        for method, path, parameters, said in queries:
            answer = await http.request(method, re.sub(r"{\w+}", "x", path), params=parameters, json={})
            if answer.status_code not in {400, 422} or said not in answer.text:
                wrong.append((method, path, answer.status_code, answer.text))

    assert wrong == []
    assert {said for *_, said in queries} == {"colour", "is given twice"}


def wrong_queries(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Requests of all operations with parameters that are refused, and what is said of these."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield method, path, {"colour": "red"}, "colour"
            names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
            if repeated := {name: ["1", "1"] for name in names if not name.endswith("[]")}:
                yield method, path, repeated, "is given twice"


async def test_every_response_has_security_headers(target: Target) -> None:
    async with httpx.AsyncClient(base_url=target.url, timeout=PATIENCE_S) as nobody, target.client() as http:
        document: dict[str, Any] = (await nobody.get("/openapi.json")).json()
        paths = [re.sub(r"{\w+}", "x", path) for path in document["paths"]]
        answers = [await nobody.get(path) for path in (*paths, "/nowhere", "/assets/nothing")]
        answers += [await http.get(path) for path in paths if path.startswith("/v1/")]
        pages = [await nobody.get(page) for page in PAGES]

    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff", answer.url
        assert "no-store" in answer.headers["cache-control"], answer.url
    assert {page.headers["cache-control"] for page in pages} == {"no-cache"}


@pytest.mark.parametrize(
    "wire", ["/v1", "/openai/v1", "/anthropic/v1", "/anthropic/oauth", "/managed-agents/v1", "/mcp"]
)
async def test_head_is_answered_as_get_without_the_body(target: Target, wire: str) -> None:
    """Errors of most wires are rewritten, for which their bodies are read."""
    async with target.client() as http:
        asked = [await http.request(method, f"{wire}/nothing") for method in ("GET", "HEAD")]

    for answer in asked:
        del answer.headers["date"], answer.headers["x-request-id"]
        answer.headers.pop("request-id", None)
    get, head = asked
    assert (head.status_code, head.content) == (404, b"")
    assert head.headers == get.headers


async def test_a_flood_of_unauthenticated_requests_does_not_block_others(target: Target) -> None:
    async with (
        httpx.AsyncClient(base_url=target.url, timeout=PATIENCE_S) as nobody,
        target.watched() as watched,
    ):
        for path, count in (("/readyz", 200), ("/openapi.json", 50)):
            answers = await asyncio.gather(*(nobody.get(path) for _ in range(count)))
            assert {answer.status_code for answer in answers} == {200}

    assert watched.worst_cpu_s < 2


async def test_addresses_that_guess_keys_are_limited_and_others_are_not(
    open_target_here: OpenTarget, model_url: str
) -> None:
    """A proxy names the address, as the test's own is that of one."""
    settings = {"RUNTALLY_MAX_FAILED_KEYS_PER_MINUTE": "5"}
    async with (
        open_target_here(model_url, **settings) as target,
        target.client(await target.new_key("neighbour")) as http,
    ):
        neighbour = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
        assert (await http.get("/v1/runs", headers=neighbour)).status_code == 200
        guesses = [
            await http.get("/v1/runs", headers={**neighbour, "Authorization": f"Bearer rt_{number:032}"})
            for number in range(9)
        ]
        signing_in = await http.post(
            "/v1/browser-session",
            json={"apiKey": "rt_" + "x" * 32},
            headers={**neighbour, "Authorization": "", "Sec-Fetch-Site": "same-origin"},
        )
        known = await http.get("/v1/runs", headers=neighbour)
        elsewhere = await http.get(
            "/v1/runs", headers={"X-Forwarded-For": "192.0.2.2", "Authorization": "Bearer rt_" + "0" * 32}
        )

    statuses = [guess.status_code for guess in guesses]
    assert statuses[:5] == [401] * 5
    assert statuses[-1] == 429
    assert guesses[-1].json()["code"] == signing_in.json()["code"] == "too_many_failures"
    assert int(guesses[-1].headers["retry-after"]) > 0
    assert (known.status_code, elsewhere.status_code) == (200, 401)
