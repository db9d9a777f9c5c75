"""Schemas that reach out, never end or cannot be read, sent to a running server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.stories import a_request
from tests.security.server import ASSISTANT, Target
from tests.unit.platform.json_schema.schemas import a_bomb, nested

BOMBS = 3
PAUSE_S = 0.1
"""Between the bystander's requests, which would reach the limit of writes of a key on a fast machine."""
ROUTES = ("/v1/runs", "/v1/runs/preview", "/v1/generate/object")


class Listener:
    """A port where nobody should knock."""

    def __init__(self) -> None:
        self.url = ""
        self.knocks = 0


@asynccontextmanager
async def a_listener() -> AsyncIterator[Listener]:
    """Count connections and never answer."""
    listener = Listener()

    async def knocked(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.knocks += 1
        writer.close()

    server = await asyncio.start_server(knocked, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        listener.url = f"http://{host}:{port}/schema.json"
        yield listener


async def post(http: httpx.AsyncClient, route: str, schema: dict[str, Any]) -> httpx.Response:
    """Ask for an answer in the form of a schema."""
    if route == "/v1/generate/object":
        return await http.post(route, json={"prompt": "go", "schema": schema})
    wanted = {"type": "json_schema", "schema": schema}
    return await http.post(route, json=a_request(graphId=ASSISTANT, responseFormat=wanted))


def around(inner: dict[str, Any]) -> list[dict[str, Any]]:
    """Objects with the schema in odd places; each is looked at by some validator's crawler."""
    return [
        {"type": "object", **inner},
        {"type": "object", "properties": {"a": inner}},
        {"type": "object", "anyOf": [inner, {}]},
        {"type": "object", "definitions": {"a": {"dependencies": {"b": inner}}}, "$ref": "#/definitions/a"},
        {"type": "object", "$defs": {"a": inner}, "allOf": [{"$dynamicRef": "#/$defs/a"}]},
        {"type": "object", "patternProperties": {"^a": {"not": {"items": inner}}}},
    ]


def reaching(address: str) -> list[dict[str, Any]]:
    """Ways to send a validator somewhere."""
    return [
        {"$ref": address},
        {"$dynamicRef": f"{address}#a"},
        {"$id": address, "$ref": "other.json"},
        {"$schema": address},
    ]


async def test_no_schema_makes_the_server_ask_anybody_or_read_a_file(target: Target, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "object"}')
    missing = tmp_path / "missing.json"
    async with a_listener() as listener, target.client() as http:
        for address in (listener.url, listener.url.removeprefix("http:"), f"{target.url}/v1/graphs"):
            for inner in reaching(address):
                for schema in around(inner):
                    assert (await post(http, "/v1/runs", schema)).status_code == 422, schema
        for route in ROUTES:
            assert (await post(http, route, {"type": "object", "$ref": listener.url})).status_code == 422
        problems = [
            (await post(http, "/v1/runs", {"type": "object", "$ref": file.as_uri()})).json()
            for file in (secret, missing)
        ]

    assert listener.knocks == 0
    assert problems[0]["errors"] == problems[1]["errors"]


@pytest.mark.parametrize("pattern", ["((((", "a{100000000000000000000}", "(?=a"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_pattern_nobody_can_match_is_named(target: Target, route: str, pattern: str) -> None:
    field = "schema" if route == "/v1/generate/object" else "responseFormat.schema"
    async with target.client() as http:
        holders: list[dict[str, Any]] = [{"pattern": pattern}, {"patternProperties": {pattern: {}}}]
        for inner in holders:
            answer = await post(http, route, {"type": "object", "properties": {"a": inner}})

            assert answer.status_code == 422
            (error,) = answer.json()["errors"]
            assert error["field"] == field
            assert "#/properties/a/pattern" in error["message"]


async def test_what_is_too_much_is_named(target: Target) -> None:
    async with target.client() as http:
        for schema in (
            {"type": "object", "description": "x" * 300_000},
            {"type": "object", "enum": list(range(30_000))},
            {"type": "object", "not": nested(50)["not"], "allOf": [nested(49)] * 500},
        ):
            answer = await post(http, "/v1/runs", schema)

            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == "responseFormat.schema"


async def test_a_bomb_stops_neither_the_server_nor_the_other_tenants(target: Target) -> None:
    attacker, tenant = await asyncio.gather(target.new_key("bomber"), target.new_key("bystander"))
    usual = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with (
        target.client(attacker) as bad,
        target.good_client(tenant) as good,
        target.watched() as watched,
    ):
        await post(good, "/v1/runs/preview", usual)
        bombs = [asyncio.create_task(post(bad, "/v1/runs", a_bomb(depth))) for depth in range(40, 40 + BOMBS)]
        served = 0
        while not all(bomb.done() for bomb in bombs):
            assert (await post(good, "/v1/runs/preview", usual)).status_code == 200
            served += 1
            await asyncio.sleep(PAUSE_S)
        answers = [bomb.result() for bomb in bombs]

    assert [answer.status_code for answer in answers] == [422] * BOMBS
    assert all("takes too long to check" in answer.text for answer in answers)
    # They take seconds, one after the other; who waits behind them would be served once.
    assert served >= BOMBS
    assert watched.median_cpu_s < 0.25
    assert watched.worst_cpu_s < 2


async def test_a_flood_of_bombs_is_turned_away(target: Target) -> None:
    attacker = await target.new_key("flooder")
    async with target.client(attacker) as bad:
        bombs = [asyncio.create_task(post(bad, "/v1/runs/preview", a_bomb())) for _ in range(30)]
        done, waiting = await asyncio.wait(bombs, return_when=asyncio.FIRST_COMPLETED)
        for bomb in waiting:
            bomb.cancel()
        await asyncio.wait(bombs)

    (refused, *_) = [bomb.result() for bomb in done]
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
