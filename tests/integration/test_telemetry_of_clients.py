"""Telemetry of clients' own agents: whose it is, what is refused, and a receiver that is away."""

import gzip
import json
from typing import Any

import httpx
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from structlog.testing import capture_logs

from app.http.anthropic.telemetry_routes import MAX_BYTES
from app.requests.attribution import KeyLabels
from app.simulator.script import Reply, Text
from tests.e2e.stories import World, WorldOf, a_client, until
from tests.integration.external_calls import error_of, new_key
from tests.otlp import an_otlp_receiver

LOGS = "/anthropic/v1/logs"
PROTOBUF = {"content-type": "application/x-protobuf"}
PLAIN = {"content-type": "text/plain"}
GZIP = {**PROTOBUF, "content-encoding": "GZip"}
FORGED = {
    "user.email": "ceo@acme.example",
    "user.id": "ceo",
    "runtally.account": "other",
    "session.id": "s-1",
}


def export(**attributes: str) -> bytes:
    """An event with these attributes, as is its resource."""
    pairs = [{"key": name, "value": {"stringValue": value}} for name, value in attributes.items()]
    records = [{"logRecords": [{"attributes": pairs}]}]
    logs = {"resourceLogs": [{"resource": {"attributes": pairs}, "scopeLogs": records}]}
    return ParseDict(logs, ExportLogsServiceRequest()).SerializeToString()


async def world_with(world_of: WorldOf, **settings: Any) -> World:
    return await world_of(lambda _: Reply([Text("ok")]), **settings)


async def send(world: World, key: str, body: bytes, path: str = LOGS, **headers: str) -> httpx.Response:
    async with a_client(world.url, key) as http:
        return await http.post(path, content=body, headers=headers)


async def test_it_is_of_the_account_key_and_end_user_whatever_it_claims(world_of: WorldOf) -> None:
    async with an_otlp_receiver() as otlp:
        world = await world_with(world_of, OTEL_EXPORTER_OTLP_ENDPOINT=otlp.url)
        labels = KeyLabels.of(end_user="anna", tags={"team": "web"})
        acme = await new_key(world, "acme", labels=labels)
        other = await new_key(world, "other")
        answers = [
            await send(world, acme, export(**FORGED), **PROTOBUF),
            await send(world, acme, gzip.compress(export(**FORGED)), **GZIP, **{"Runtally-End-User": "ben"}),
            await send(world, other, export(**FORGED), **PROTOBUF),
        ]
        await until(lambda: len(otlp.resources) == 3)
        accounts = (await world.http.get("/v1/accounts")).json()["items"]
        shown = (await world.http.get("/metrics")).text

    assert {(each.status_code, each.headers["content-type"], each.content) for each in answers} == {
        (200, "application/x-protobuf", b"")
    }
    ids = {each["name"]: each["id"] for each in accounts}
    # Accounts take turns.
    found = {
        (each["runtally.account"], each.get("user.id"), each.get("runtally.tag.team"))
        for each in otlp.resources
    }
    assert found == {(ids["acme"], "anna", "web"), (ids["acme"], "ben", "web"), (ids["other"], None, None)}
    assert len({each["runtally.api_key"] for each in otlp.resources}) == 2
    assert {each["service.name"] for each in otlp.resources} == {"claude-code"}
    assert otlp.events == [{"session.id": "s-1"}] * 3
    assert 'runtally_client_telemetry_exports_total{result="forwarded",signal="logs"} 3.0' in shown


async def test_a_label_that_is_fixed_cannot_be_replaced(world_of: WorldOf) -> None:
    world = await world_with(world_of)
    key = await new_key(world, "acme", labels=KeyLabels.of(end_user="anna", fixed=True))

    refused = await send(world, key, export(), **PROTOBUF, **{"Runtally-End-User": "ben"})

    assert error_of(refused)[:2] == (400, "invalid_request_error")


async def test_nothing_is_done_with_it_where_telemetry_is_off(world_of: WorldOf) -> None:
    world = await world_with(world_of)
    key = await new_key(world, "acme")

    for signal in ("metrics", "logs", "traces"):
        path = f"/anthropic/v1/{signal}"
        answer = await send(world, key, b"{}", path, **{"content-type": "application/json"})

        assert (answer.status_code, answer.json()) == (200, {}), signal


async def test_what_it_may_not_be(world_of: WorldOf) -> None:
    async with an_otlp_receiver() as otlp:
        world = await world_with(world_of, OTEL_EXPORTER_OTLP_ENDPOINT=otlp.url)
        key = await new_key(world, "acme")
        reader = await new_key(world, "acme", ("runs:read",))
        whole, bomb = gzip.compress(export(**FORGED)), gzip.compress(b"\0" * (50 * 2**20))
        answers = [
            await send(world, "rt_" + "wrong" * 6, export(), **PROTOBUF),
            await send(world, reader, export(), **PROTOBUF),
            await send(world, key, b"\xff" * 100, **PROTOBUF),
            await send(world, key, export(), **PLAIN),
            await send(world, key, export(), **PROTOBUF, **{"content-encoding": "br"}),
            await send(world, key, export(), **GZIP),
            await send(world, key, whole[:-9], **GZIP),
            await send(world, key, whole + whole, **GZIP),
            await send(world, key, bomb, **GZIP),
            await send(world, key, b"\0" * (10 * 2**20), **PROTOBUF),
            await send(
                world, key, json.dumps({"resourceLogs": 7}).encode(), **{"content-type": "application/json"}
            ),
            await send(world, key, export(), f"{LOGS}?nothing=1", **PROTOBUF),
        ]

    assert len(bomb) < MAX_BYTES
    assert [error_of(each)[:2] for each in answers] == [
        (401, "authentication_error"),
        (403, "permission_error"),
        (400, "invalid_request_error"),
        (415, "invalid_request_error"),
        (415, "invalid_request_error"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error"),
        (413, "request_too_large"),
        (413, "request_too_large"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error"),
    ]
    assert otlp.requests == 0


async def test_a_key_for_other_graphs_may_not_send_it(world_of: WorldOf) -> None:
    world = await world_with(world_of)
    body = {"name": "one", "scopes": ["external:write"], "graphs": ["messages:generate"]}
    made = await world.http.post("/v1/accounts/default/keys", json=body)

    refused = await send(world, made.json()["key"], export(), **PROTOBUF)

    assert error_of(refused)[:2] == (403, "permission_error")


async def test_a_receiver_that_is_away_delays_no_client(world_of: WorldOf) -> None:
    async with an_otlp_receiver(holds=True) as otlp:
        world = await world_with(world_of, OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=f"{otlp.url}/v1/logs")
        key = await new_key(world, "acme")
        relay = world.services.telemetry.clients["logs"]
        taken = [(await send(world, key, export(**FORGED), **PROTOBUF)).status_code for _ in range(3)]
        await until(lambda: otlp.requests == 1)
        otlp.status = 503
        otlp.let_go.set()
        await until(lambda: relay.results["unreachable"] == 1)

    assert taken == [200] * 3
    assert (otlp.events, relay.results["forwarded"]) == ([], 0)


async def test_a_header_that_cannot_be_sent_is_logged_and_ends_no_server(world_of: WorldOf) -> None:
    headers = "x-team=%E2%82%AC"
    with capture_logs() as logs:
        async with an_otlp_receiver() as otlp:
            to = {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": otlp.url, "OTEL_EXPORTER_OTLP_LOGS_HEADERS": headers}
            world = await world_with(world_of, **to)
            key = await new_key(world, "acme")
            taken = [(await send(world, key, export(), **PROTOBUF)).status_code]
            await until(lambda: any(each.get("job") == "telemetry.clients" for each in logs))
            taken.append((await send(world, key, export(), **PROTOBUF)).status_code)

    assert (taken, otlp.requests) == ([200, 200], 0)
